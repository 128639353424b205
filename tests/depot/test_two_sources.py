"""Two sources and three pipelines at once, driver and services killed: no version is wrong.

DEPOT_KILLS says how often each of driver, Connect and PostgreSQL is killed (a soak takes ten);
without it PostgreSQL is killed once, which both sources share. What was written is then compared
with hourly runs, and with faults planted in copies of the tables.
"""

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
from deltalake import DeltaTable
from lockstep.batch.run import run_pipeline
from lockstep.devstack import control
from lockstep.devstack.connect import Connect
from lockstep.devstack.postgres import Postgres
from lockstep.model.modes import StreamMode
from lockstep.model.verdict import Verdict
from lockstep.model.window import Window
from lockstep.parity.comparison import Compared, OtherModes, compare
from lockstep.parity.policy import Policy
from lockstep.parity.readiness import readiness
from lockstep.parity.sides import Sides
from lockstep.pipeline.modes import Mode
from lockstep.pipeline.plan import Plan, plan_named
from lockstep.pipeline.project import read_project
from lockstep.settings import Settings
from lockstep_tools.soak import connector_restarts, delta_log
from lockstep_tools.soak.checks import Checks
from pizzeria.shop.moving_pizzas import Movers, open_round
from pyspark.sql import SparkSession

from tests.depot.streams import Streams, until
from tests.depot.tampered import FAULTS, Tampered
from tests.depot.writer import BOOKED, KEYS, DepotWriter, Key, Written, clerk, rows_of
from tests.project import PROJECT_DIR

pytestmark = [pytest.mark.e2e, pytest.mark.services, pytest.mark.spark]
KILLS = int(os.environ.get("DEPOT_KILLS", "0"))
SEED = int(os.environ.get("DEPOT_SEED", "5"))
DRIVER = "driver"
PLANS = {name: plan_named(PROJECT_DIR, name) for name in KEYS}
STREAMS = [(name, StreamMode(mode)) for name in KEYS for mode in PLANS[name].manifest.modes]
EXACT = tuple(mode for mode in StreamMode if mode is not StreamMode.LOOKUP)
"""The modes whose rows are those of their own commit."""
ROWS_BETWEEN_KILLS = 60
TRANSACTIONS_AT_ONCE = 200
"""They have more rows of each result than are waited for."""
WINDOW = Window.parse("2026-03-27T23:00Z", "2026-03-30T22:00Z")
"""All of the depot's times."""
FAULTS_OF_A_PIPELINE = 200


@dataclass
class Followed:
    """What was written to the depot while all was killed, and what its tables had at first."""

    settings: Settings
    initial: dict[str, dict[Key, tuple]]
    written: dict[str, list[Written]]
    findings: list[object]

    def uri(self, pipeline: str, mode: StreamMode) -> str:
        return self.settings.table_uri(PLANS[pipeline].change_log(Mode(mode)))

    def change_log(self, pipeline: str, mode: StreamMode) -> DeltaTable:
        return DeltaTable(self.uri(pipeline, mode))


@pytest.fixture(scope="module")
def followed(two_sources: Settings, spark: SparkSession) -> Followed:
    print(f"seed {SEED}, {KILLS} kills each")  # noqa: T201 - shown when a test fails
    settings, rng = two_sources, Random(SEED)
    names = [str(mode) if name == BOOKED else f"{name}__{mode}" for name, mode in STREAMS]
    depot = Streams(settings.of(BOOKED), names)
    pizzeria = Streams(settings, list(map(str, StreamMode)))
    both = [depot, pizzeria]
    with clerk(settings) as connection:
        initial = {pipeline: rows_of(connection, pipeline) for pipeline in KEYS}
    found = Followed(settings, initial, {}, [])
    checks = Checks.of(settings, StreamMode)
    for one in both:
        one.keep()
    until(lambda: rows_in_all(found) >= 0, both)
    moved = open_round(settings, 20, seed=SEED)
    checks.watch(moved.order_ids, moved.pizzas)
    writer = DepotWriter(settings, SEED)
    writer.start()
    try:
        with Movers(settings, moved, rate=5, seed=SEED):
            kill_all(found, both, writer, rng)
        writer.end()
        found.written = writer.written
        until(lambda: has_all(found), both)
        found.findings = checks.run()
        for pipeline in KEYS:
            folder = read_project(PROJECT_DIR).pipeline(pipeline)
            run_pipeline(spark, settings, folder, WINDOW)
        until(lambda: all(is_ready(found, pipeline) for pipeline in KEYS), both)
    finally:
        for one in both:
            one.stop()
    return found


def kill_all(found: Followed, both: list[Streams], writer: DepotWriter, rng: Random) -> None:
    """Each target so many times, in random order, as soon as both sources have moved on."""
    targets = [DRIVER, Connect.name, Postgres.name] * KILLS or [Postgres.name]
    rng.shuffle(targets)
    for target in targets:
        await_rows(found, both, writer)
        writer.allow(TRANSACTIONS_AT_ONCE)
        if target == DRIVER:
            for one in both:
                one.kill(rng)
        else:
            connector_restarts.kill(found.settings, target)
            control.up(found.settings, [Connect.name])
    await_rows(found, both, writer)


def await_rows(found: Followed, both: list[Streams], writer: DepotWriter) -> None:
    """Until every result has more rows."""
    assert writer.failure is None, repr(writer.failure)
    rows = rows_in_all(found)
    writer.allow(TRANSACTIONS_AT_ONCE)
    until(lambda: rows_in_all(found) > rows + ROWS_BETWEEN_KILLS, both)


def rows_in_all(found: Followed) -> int:
    """Of the change log of the depot that has the fewest; -1 while one is not there."""
    counts = []
    for pipeline, mode in STREAMS:
        if not DeltaTable.is_deltatable(found.uri(pipeline, mode)):
            return -1
        counts.append(len(transactions_in(found.change_log(pipeline, mode))))
    return min(counts)


def transactions_in(table: DeltaTable) -> list[int]:
    """Of each row, but those of the snapshot."""
    return table.to_pyarrow_table(columns=["tx_id"])["tx_id"].drop_null().to_pylist()


def has_all(found: Followed) -> bool:
    return all(
        len(transactions_in(found.change_log(pipeline, mode))) >= len(found.written[pipeline])
        for pipeline, mode in STREAMS
    )


def is_ready(found: Followed, pipeline: str) -> bool:
    ready = readiness(found.settings, PLANS[pipeline], WINDOW, Mode.TEMPORAL)
    return ready.verdict is None


def versions(found: Followed, pipeline: str, mode: StreamMode) -> list[Written]:
    """The rows that came by a transaction, in the order of the commits."""
    table = found.change_log(pipeline, mode).to_pyarrow_table()
    rows = sorted(table.to_pylist(), key=lambda one: one["commit_lsn"])
    key, columns = KEYS[pipeline], list(PLANS[pipeline].result.columns)
    return [
        Written(
            one["tx_id"],
            tuple(one[name] for name in key),
            None if one["op"] == "d" else tuple(one[n] for n in columns if n not in key),
        )
        for one in rows
        if one["tx_id"] is not None
    ]


@pytest.mark.parametrize(("pipeline", "mode"), STREAMS)
def test_each_change_is_there_once_as_of_its_own_commit(
    followed: Followed, pipeline: str, mode: StreamMode
) -> None:
    found, written = versions(followed, pipeline, mode), followed.written[pipeline]
    if mode in EXACT:
        assert sorted(found, key=str) == sorted(written, key=str)
    else:  # it has the rows of a moment later
        assert sorted(one[:2] for one in found) == sorted(one[:2] for one in written)


@pytest.mark.parametrize(("pipeline", "mode"), STREAMS)
def test_each_version_has_whole_transactions_in_the_order_of_commits(
    followed: Followed, pipeline: str, mode: StreamMode
) -> None:
    written = followed.written[pipeline]
    order = list(dict.fromkeys(one.tx_id for one in written))
    sizes = Counter(one.tx_id for one in written)
    number = -1
    for number, found in enumerate(contents(Path(followed.uri(pipeline, mode)))):
        assert found == {tx_id: sizes[tx_id] for tx_id in order[: len(found)]}, number
    assert number == followed.change_log(pipeline, mode).version()
    print(f"{len(written)} changes, {number + 1} versions")  # noqa: T201 - of a soak


def contents(folder: Path) -> Iterator[Counter[int]]:
    """How many rows of each transaction each version has, from the first version on."""
    found: Counter[int] = Counter()
    files: dict[str, Counter[int]] = {}
    oldest, newest = delta_log.versions(folder)
    assert oldest == 0
    for number in range(newest + 1):
        commit = delta_log.read_commit(folder, number)
        for file in commit.added:
            rows = delta_log.read_rows(folder, file, ["tx_id"])
            files[file] = Counter(rows["tx_id"].drop_null().to_pylist())
            found += files[file]
        for file in commit.removed:
            found -= files[file]
        yield found


def test_the_other_source_has_no_wrong_version_either(followed: Followed) -> None:
    assert followed.findings == []


@pytest.mark.parametrize("pipeline", KEYS)
def test_rows_differ_where_something_was_changed_after_their_commit_and_nowhere_else(
    followed: Followed, spark: SparkSession, pipeline: str
) -> None:
    found = compared(spark, followed.settings, PLANS[pipeline])
    assert classes(found) == dict.fromkeys(drifted(followed, pipeline), "dimension_drift")
    assert found.differing


def drifted(followed: Followed, pipeline: str) -> set[Key]:
    """The keys whose row of now is not that of their last change, or of the beginning."""
    last = dict(followed.initial[pipeline])
    last |= {one.key: one.row for one in followed.written[pipeline]}
    with clerk(followed.settings) as connection:
        now = rows_of(connection, pipeline)
    return {key for key, row in now.items() if row != last[key]}


@pytest.mark.parametrize("pipeline", KEYS)
def test_each_planted_fault_is_named_in_its_class_and_nothing_else_is(
    followed: Followed, spark: SparkSession, tmp_path: Path, pipeline: str
) -> None:
    shutil.copytree(followed.settings.home / "lakehouse", tmp_path / "lakehouse")
    settings = followed.settings.model_copy(update={"lakehouse": str(tmp_path / "lakehouse")})
    plan = PLANS[pipeline]
    natural = drifted(followed, pipeline)
    tampered = Tampered(settings, plan, Random(SEED))
    keys = tampered.plain_keys(natural)[:FAULTS_OF_A_PIPELINE]
    assert len(keys) == FAULTS_OF_A_PIPELINE
    expected = dict.fromkeys(natural, "dimension_drift")
    for place, key in enumerate(keys):
        expected |= FAULTS[place % len(FAULTS)](tampered, key)
    tampered.write()
    found = compared(spark, settings, plan)
    assert classes(found) == expected
    policy = Policy(plan.manifest.tolerate)
    assert policy.verdict(StreamMode.TEMPORAL, found.counts, found.rows) is Verdict.FAIL


def compared(spark: SparkSession, settings: Settings, plan: Plan) -> Compared:
    ready = readiness(settings, plan, WINDOW, Mode.TEMPORAL)
    assert (ready.verdict, ready.reason) == (None, "")
    return compare(spark, Sides(settings, plan, WINDOW, Mode.TEMPORAL, ready), OtherModes())


def classes(found: Compared) -> dict[Key, str]:
    return {one.key: str(one.kind) for one in found.differing}
