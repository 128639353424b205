"""Whether a stream gives what the hourly run gives, over histories that are made up at random."""

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from lockstep.enrich.plans import value_errors
from lockstep.histories.made_up import written
from lockstep.histories.random_history import RandomHistory
from lockstep.histories.sides import Batch, Row, Stream, compared_keys
from lockstep.pipeline.plan import Plan, plan_of
from lockstep.pipeline.project import Pipeline, read_project
from lockstep.settings import Settings
from lockstep.spark import FEW_ROWS, stopped_session
from lockstep.streams.table_rows import Key

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TRANSACTIONS = 12
"""Of each history."""
_PLACE = re.compile(r"^== SQL .*==\n(?P<line>.*)\n(?P<marks> *\^+)", re.MULTILINE)
"""Where Spark marks the expression that fails, in the line that it is in."""


@dataclass(frozen=True)
class Difference:
    """A row of the result that the two have otherwise after a transaction.

    history: its number, from 0. batch, stream: the row's values, of the columns that differ; None
    where there is no row. writes: what the transaction did, a line for each.
    """

    history: int
    key: Key
    batch: Row | None
    stream: Row | None
    writes: tuple[str, ...]


@dataclass
class HistoriesCheck:
    """What was tried: transactions, rows compared.

    failures: why the query fails over a value, and in how many histories. A database may never have
    such values, so a history that has them is left.
    """

    transactions: int = 0
    rows: int = 0
    differences: list[Difference] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)


def check_histories(
    spark: "SparkSession", settings: Settings, pipeline: Pipeline, histories: int, seed: int
) -> HistoriesCheck:
    """Compare both over so many histories, up to the first one that has a difference.

    The same seed makes the same histories. A catalog has no unique constraints, so a look-up that
    is not by a primary key, and not of children, finds one row. Raises PipelineError, also without
    a result.lock, and StreamError where the query gives a row of the fact no row, or several.
    """
    plan = plan_of(pipeline)
    stream, batch, found = Stream(spark, settings, plan), Batch(spark, plan), HistoriesCheck()
    for number in range(histories):
        rng = Random(f"{seed} {number}")  # noqa: S311 - nothing secret
        history = RandomHistory(plan, pipeline.source.catalog, rng)
        made = [history.transaction() for _ in range(TRANSACTIONS)]
        with _values_that_fail(found):
            for one, rows in zip(made, stream.rows(made, rng), strict=True):
                compared = dict(compared_keys(plan, one, batch.rows(one), rows))
                found.transactions += 1
                found.rows += len(compared)
                found.differences += [
                    Difference(number, key, *sides, written(plan, one.transaction))
                    for key, sides in compared.items()
                    if sides is not None
                ]
        if found.differences:
            break
    return found


def check_named(name: str, histories: int, seed: int) -> tuple[Plan, HistoriesCheck]:
    """The same in a session of its own. Raises LockstepError, as check_histories does."""
    settings = Settings.load()
    pipeline = read_project(settings.project).pipeline(name)
    plan = plan_of(pipeline)
    _ = plan.result  # what lacks result.lock is refused before Spark is started
    with stopped_session(settings, f"lockstep check of {name}", FEW_ROWS) as spark:
        spark.sparkContext.setLogLevel("OFF")  # each value that fails would be logged with stacks
        return plan, check_histories(spark, settings, pipeline, histories, seed)


@contextmanager
def _values_that_fail(found: HistoriesCheck) -> Iterator[None]:
    try:
        yield
    except value_errors() as error:
        found.failures[_reason(str(error))] += 1


def _reason(message: str) -> str:
    """What is wrong, and where in the query, of a message of Spark's tasks: on one line."""
    first = message.splitlines()[0].split(". ")[0].removesuffix(".")
    place = _PLACE.search(message)
    if place is None:
        return first
    begin = len(place["marks"]) - len(place["marks"].lstrip())
    return f"{first}: `{place['line'][begin : len(place['marks'])].strip()}`"
