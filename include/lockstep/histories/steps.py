"""Runs a pipeline's own tests (pipeline/steps.py): as a stream, and as the hourly run would."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from lockstep.enrich.plans import evaluated
from lockstep.histories.made_up import MadeUp, State, Write, copied, empty_state, made_up
from lockstep.histories.sides import Batch, Row, Stream, compared_keys, key_in
from lockstep.pipeline.errors import ManifestError, Problem
from lockstep.pipeline.plan import Plan, PlannedTable, plan_of
from lockstep.pipeline.project import Pipeline, read_project
from lockstep.pipeline.project_files import PIPELINES
from lockstep.pipeline.query.at import at_snapshot
from lockstep.pipeline.steps import (
    DELETE,
    INSERT,
    TESTS_FOLDER,
    Expected,
    TypedTransaction,
    TypedWrite,
    read_steps,
)
from lockstep.pipeline.toml_values import is_as_expected
from lockstep.settings import Settings
from lockstep.spark import FEW_ROWS, stopped_session
from lockstep.streams.ops import CREATED, DELETED, UPDATED
from lockstep.streams.table_rows import Key, TableRow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


NO_ROW, SAME_ROW = "no row", "the same in both"


@dataclass(frozen=True)
class OwnTest:
    """A test of a pipeline's folder, read and judged. file: below the project's folder."""

    file: Path
    transactions: tuple[TypedTransaction, ...]
    made: tuple[MadeUp, ...]


@dataclass(frozen=True)
class Failure:
    """A row that is not as expected, or that stream and hourly run have otherwise.

    line: of what is expected, or of the transaction. expected: values, or in words that there is to
    be no row, or the same one in both. batch, stream: of the columns that matter; None for no row.
    """

    line: int
    key: Key
    expected: Row | str
    batch: Row | None
    stream: Row | None


@dataclass(frozen=True)
class Outcome:
    """rows: those that were looked at."""

    file: Path
    rows: int
    failures: tuple[Failure, ...]


def read_tests(project: Path, pipeline: Pipeline) -> list[OwnTest]:
    """Those of the pipeline's folder, by name. Raises ManifestError with what is wrong in each."""
    plan, problems, found = plan_of(pipeline), [], []
    folder = PIPELINES / pipeline.name / TESTS_FOLDER
    for path in sorted((project / folder).glob("*.toml")):
        file = folder / path.name
        try:
            text = path.read_text(encoding="utf-8")
            steps = read_steps(text, file, plan, pipeline.source.catalog)
            found.append(OwnTest(file, tuple(steps), tuple(_made(plan, file, steps))))
        except ManifestError as error:
            problems += error.problems
    if problems:
        raise ManifestError(problems)
    return found


def run_tests(
    spark: "SparkSession", settings: Settings, plan: Plan, tests: Sequence[OwnTest]
) -> Iterator[Outcome]:
    """What came out of each. Raises as histories.check.check_histories does, and
    QueryRefusedError for a query that fails over a value."""
    stream, batch = Stream(spark, settings, plan), Batch(spark, plan)
    for test in tests:
        rows, failures = 0, []
        with evaluated(at_snapshot(plan.query)):
            by_hour = [batch.rows(made) for made in test.made]
        streamed = stream.rows(test.made, Random(0))  # noqa: S311 - micro-batches
        steps = zip(test.transactions, test.made, by_hour, streamed, strict=True)
        for step, made, hourly, wrote in steps:
            compared = dict(compared_keys(plan, made, hourly, wrote))
            rows += len(compared)
            last = {key_in(plan, row): row for row in wrote}
            living = {key: row for key, row in last.items() if row["op"] != DELETED}
            unexpected = [
                Failure(one.line, one.key, NO_ROW if one.row is None else one.row, *shown)
                for one in step.expected
                if (shown := _wrong(one, hourly.get(one.key), living.get(one.key)))
            ]
            known = {one.key for one in unexpected}
            failures += unexpected
            failures += [
                Failure(step.line, key, SAME_ROW, *sides)
                for key, sides in compared.items()
                if sides is not None and key not in known
            ]
        yield Outcome(test.file, rows, tuple(failures))


def run_named(name: str) -> tuple[Plan, list[Outcome]]:
    """Run a pipeline's tests in a session of their own; no Spark is started where there are none.

    Raises LockstepError: PipelineError also without a result.lock.
    """
    settings = Settings.load()
    pipeline = read_project(settings.project).pipeline(name)
    plan, tests = plan_of(pipeline), read_tests(settings.project, pipeline)
    _ = plan.result
    if not tests:
        return plan, []
    with stopped_session(settings, f"lockstep test of {name}", FEW_ROWS) as spark:
        return plan, list(run_tests(spark, settings, plan, tests))


def _wrong(expected: Expected, batch: Row | None, stream: Row | None) -> tuple | None:
    """Both rows' values of what is expected and one of them has not; None if all is well."""
    if expected.row is None:
        return None if batch is None and stream is None else (batch, stream)
    sides = []
    names = [
        name
        for name, value in expected.row.items()
        if any(side is None or not is_as_expected(value, side[name]) for side in (batch, stream))
    ]
    for side in (batch, stream):
        sides.append(None if side is None else {name: side[name] for name in names})
    return tuple(sides) if names else None


def _made(plan: Plan, file: Path, steps: Sequence[TypedTransaction]) -> Iterator[MadeUp]:
    """Raises ManifestError for a write that PostgreSQL would refuse, or that does nothing; and for
    an expected row that its transaction does not touch."""
    state, problems = empty_state(plan), []
    for number, step in enumerate(steps, start=1):
        before = copied(state)
        writes = []
        for write in step.writes:
            table = plan.tables[write.table]
            try:
                writes.append(_applied(table, write, state))
            except ValueError as error:
                problems.append(Problem(file, step.line, "", str(error)))
        made = made_up(plan, number, writes, before, copied(state))
        problems += [
            Problem(
                file,
                one.line,
                "",
                f"the transaction touches no row of the key {plan.fact.key_text(one.key)}, so that "
                "a stream writes none: expect it after the one that does",
            )
            for one in step.expected
            if one.key not in made.touched
        ]
        yield made
    if problems:
        raise ManifestError(problems)


def _applied(table: PlannedTable, write: TypedWrite, state: State) -> Write:
    """The write as a stream gets it; the state has it then. Raises ValueError."""
    rows = state[table.name]
    key = tuple(write.values[name] for name in table.key)
    is_there = key in rows
    if write.verb == INSERT and is_there:
        raise ValueError(f"{table.name} has a row of the key {table.key_text(key)} already")
    if write.verb != INSERT and not is_there:
        raise ValueError(f"{table.name} has no row of the key {table.key_text(key)}")
    if write.verb == DELETE:
        del rows[key]
        return table.name, DELETED, TableRow(key, None)
    old = dict(zip(table.columns, rows[key], strict=True)) if is_there else {}
    values = {**dict.fromkeys(table.columns), **old, **write.values}
    rows[key] = tuple(values[name] for name in table.columns)
    return table.name, UPDATED if is_there else CREATED, TableRow(key, rows[key])
