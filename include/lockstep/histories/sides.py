"""What mode temporal and the hourly run give of transactions that are made up in memory.

The stream is the mode's own code, with a change log in a folder that is deleted again. The hourly
run's query is run over the tables as they are after each transaction. No database is asked, and no
table of the project is touched.
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from lockstep.cdc.transactions import Transaction
from lockstep.enrich.plans import bind, run
from lockstep.histories.made_up import MadeUp
from lockstep.pipeline.modes import Mode
from lockstep.pipeline.plan import Plan
from lockstep.pipeline.query.at import at_snapshot
from lockstep.pipeline.values import comparable
from lockstep.settings import Settings
from lockstep.streams.as_of_commit import Evaluation, TemporalSink
from lockstep.streams.needed_versions import NeededVersions
from lockstep.streams.ops import DELETED
from lockstep.streams.sink import open_change_log
from lockstep.streams.stored_history import StoredHistory
from lockstep.streams.table_rows import Key
from lockstep.streams.versions import Version, relation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOGETHER_MAX = 3
"""Transactions of one micro-batch."""
Row = Mapping[str, Any]


class Batch:
    """The hourly run's query over the tables as they are after a transaction."""

    def __init__(self, spark: "SparkSession", plan: Plan) -> None:
        self._session, self._plan = spark.newSession(), plan
        self._rewritten = at_snapshot(plan.query)

    def rows(self, one: MadeUp) -> dict[Key, Row]:
        for name, table in self._plan.tables.items():
            versions = (Version(key, 0, values) for key, values in one.after[name].items())
            rows = relation(table, versions).drop_columns(["valid_from", "valid_to"])
            bind(self._session.createDataFrame(rows).coalesce(1), name)
        found = run(self._session, self._rewritten).toArrow().to_pylist()
        return {key_in(self._plan, row): row for row in found}


class Stream:
    """Mode temporal, from an empty change log on."""

    def __init__(self, spark: "SparkSession", settings: Settings, plan: Plan) -> None:
        self._settings, self._plan = settings, plan
        self._evaluation = Evaluation(spark, plan)

    def rows(self, made: Sequence[MadeUp], rng: Random) -> list[list[Row]]:
        """Those that it writes of each transaction, some of which come in one micro-batch."""
        with tempfile.TemporaryDirectory(prefix="lockstep-histories-") as folder:
            settings = self._settings.model_copy(update={"lakehouse": folder})
            log = open_change_log(settings, self._plan, Mode.TEMPORAL)
            needed = NeededVersions(self._plan, StoredHistory(str(Path(folder) / "none")), None)
            sink = TemporalSink(log, self._plan, needed, self._evaluation)
            rows: dict[int, list[Row]] = {one.transaction.commit_lsn: [] for one in made}
            for together in _micro_batches([one.transaction for one in made], rng):
                last = together[-1].commit_lsn
                for row in sink.write(together, last, last, seen_us=last).to_pylist():
                    rows[row["commit_lsn"]].append(row)
        return list(rows.values())


def _micro_batches(
    transactions: Sequence[Transaction], rng: Random
) -> Iterator[Sequence[Transaction]]:
    at = 0
    while at < len(transactions):
        size = rng.randint(1, TOGETHER_MAX)
        yield transactions[at : at + size]
        at += size


def compared_keys(
    plan: Plan, one: MadeUp, batch: Mapping[Key, Row], stream: Sequence[Row]
) -> Iterator[tuple[Key, tuple[Row | None, Row | None] | None]]:
    """Each key that either touches, with both rows' values where they differ, else with None."""
    wrote: dict[Key, list[Row]] = {}
    for row in stream:
        wrote.setdefault(key_in(plan, row), []).append(row)
    for key in sorted(one.touched | wrote.keys(), key=str):
        rows = wrote.get(key, [])
        ours = batch.get(key)
        theirs = rows[-1] if rows and rows[-1]["op"] != DELETED else None
        if ours is None or theirs is None or len(rows) > 1:
            is_gone = ours is None and theirs is None and len(rows) == 1
            yield key, None if is_gone else (_outputs(plan, ours), _outputs(plan, theirs))
            continue
        names = [name for name in plan.outputs if not is_same(plan, ours[name], theirs[name])]
        sides = [{name: side[name] for name in names} for side in (ours, theirs)]
        yield key, (sides[0], sides[1]) if names else None


def _outputs(plan: Plan, row: Row | None) -> Row | None:
    return row and {name: row[name] for name in plan.outputs}


def is_same(plan: Plan, one: Any, other: Any) -> bool:
    if comparable(one) == comparable(other):
        return True
    if not (isinstance(one, float) and isinstance(other, float)):
        return False
    epsilon = float(plan.manifest.tolerate.float_epsilon)
    return abs(one - other) <= epsilon * min(abs(one), abs(other))


def key_in(plan: Plan, row: Row) -> Key:
    return tuple(comparable(row[name]) for name in plan.key)
