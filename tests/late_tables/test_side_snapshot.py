"""Tables that come to a captured source while all is written to and killed: nothing is missing.

Each round brings a pipeline whose tables the connector began without. LATE_ROUNDS says how many (a
soak takes fifty), LATE_SEED repeats a run, LATE_KILLS=0 kills nothing and says how late the first
pipeline's rows are meanwhile, and when nothing comes. What a pipeline's rows are after each
transaction its writer knows from PostgreSQL itself.
"""

import os
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest
from deltalake import DeltaTable
from lockstep.capture.source_capture import capture_source
from lockstep.devstack import control
from lockstep.devstack.connect import Connect
from lockstep.devstack.kafka import Kafka
from lockstep.devstack.postgres import Postgres
from lockstep.faults import Point
from lockstep.pipeline.modes import Mode
from lockstep.pipeline.project import read_project
from lockstep.sinks.append_log import reached_of
from lockstep.sources.side_snapshots import read_side_snapshots
from lockstep.supervise import launcher, lease
from lockstep.supervise.heartbeat import read_heartbeat
from lockstep_tools.soak import connector_restarts

from tests.depot.streams import Streams, until
from tests.late_tables.writer import Left, YardWriter
from tests.late_tables.yard import FIRST, FIRST_QUERY, SOURCE, Late, Yard

pytestmark = [pytest.mark.e2e, pytest.mark.services]
ROUNDS = int(os.environ.get("LATE_ROUNDS", "2"))
SEED = int(os.environ.get("LATE_SEED", "11"))
PORTS = ("postgres_port", "kafka_port", "connect_port")
KILLS = os.environ.get("LATE_KILLS", "1") != "0"
QUIET_SECONDS = 30.0
MODES = (Mode.TEMPORAL, Mode.TRANSACTION)
CAPTURE_SECONDS_MAX = 300.0
ROWS_MORE = 60
"""Of a late pipeline, after its first."""
FAULTS = [point for point in Point if point.startswith("side_")]
DRIVER = "driver"
KILLED = [*FAULTS, Connect.name, Postgres.name, Kafka.name, DRIVER, "capture"]


def lockstep(yard: Yard, log: Path, *arguments: str, fault: str = "") -> subprocess.Popen:
    """The command in a process of its own, as a person runs it."""
    own = {"LOCKSTEP_FAULT": fault, "LOCKSTEP_JARS_DIR": str(yard.settings.jars_dir)}
    for name in ("home", "project", *PORTS):
        own[f"LOCKSTEP_{name.upper()}"] = str(getattr(yard.settings, name))
    command = [Path(sys.executable).with_name("lockstep"), *arguments]
    with log.open("ab") as output:
        return subprocess.Popen(command, env={**os.environ, **own}, stdout=output, stderr=output)


class Capture:
    """`lockstep source capture yard` in a process of its own, begun again until it is done."""

    def __init__(self, yard: Yard, log: Path) -> None:
        self._yard, self._log = yard, log

    def run(self, streams: Streams, killed: str, rng: Random) -> None:
        """Once with what is killed meanwhile, and then as often as it takes."""
        fault = f"capture:{killed}" if killed in FAULTS else ""
        process = self._started(fault)
        if killed and not fault:
            time.sleep(rng.uniform(0.5, 15))
            if process.poll() is None:
                self._kill(killed, process, streams, rng)
        deadline = time.monotonic() + CAPTURE_SECONDS_MAX
        while self._ended(process, streams, deadline) != 0:
            process = self._started("")

    def _kill(self, what: str, process: subprocess.Popen, streams: Streams, rng: Random) -> None:
        if what == "capture":
            process.kill()
        elif what == DRIVER:
            streams.kill(rng)
        else:
            connector_restarts.kill(self._yard.settings, what)
            control.up(self._yard.settings, [Connect.name])

    def _ended(self, process: subprocess.Popen, streams: Streams, deadline: float) -> int:
        while process.poll() is None:
            streams.keep()
            assert time.monotonic() < deadline, self._log.read_text()[-3000:]
            time.sleep(0.2)
        assert time.monotonic() < deadline, self._log.read_text()[-3000:]
        return process.returncode

    def _started(self, fault: str) -> subprocess.Popen:
        return lockstep(self._yard, self._log, "source", "capture", SOURCE, fault=fault)


def late_of(number: int, rng: Random) -> Late:
    """Half of them with a fact that is late, too."""
    fact = FIRST if rng.random() < 0.5 else f"moves_{number}"
    return Late(f"late_{number}", fact, rng.choice(["weight", "place"]))


def change_log(yard: Yard, pipeline: str, mode: Mode) -> list[dict]:
    """Its rows in the order of the commits; none before it is there."""
    uri = yard.settings.table_uri(yard.plan(pipeline).change_log(mode))
    if not DeltaTable.is_deltatable(uri):
        return []
    return sorted(DeltaTable(uri).to_pyarrow_table().to_pylist(), key=lambda row: row["commit_lsn"])


def values(row: dict) -> tuple:
    note = row["note"]
    return row["own"], row["name"], note and note[0], note and len(note)


def require_all(log: list[dict], late: Late, left: list[Left]) -> None:
    """The log begins with the rows of one moment, and has each change of later transactions."""
    snapshot = {row["id"]: values(row) for row in log if row["tx_id"] is None}
    assert len({row["commit_lsn"] for row in log if row["tx_id"] is None}) <= 1
    later: dict[int, dict[int, tuple | None]] = {}
    for row in log:
        if row["tx_id"] is not None:
            changed = later.setdefault(row["tx_id"], {})
            assert row["id"] not in changed, "a row of a transaction is there twice"
            changed[row["id"]] = None if row["op"] == "d" else values(row)
    expected = [
        (one.tx_id, {key: one.rows[late.name].get(key) for key in keys})
        for one in left
        if (keys := one.touched.get(late.fact)) and late.name in one.rows
    ]
    first = next(at for at, (tx_id, _) in enumerate(expected) if tx_id in later)
    assert list(later.items()) == expected[first:][: len(later)]
    begin = 0 if first == 0 else place_of(left, expected[first - 1][0])
    moments = [one.rows[late.name] for one in left[begin : place_of(left, expected[first][0])]]
    assert snapshot in moments, "the first rows are of no moment"


def place_of(left: list[Left], tx_id: int) -> int:
    return next(at for at, one in enumerate(left) if one.tx_id == tx_id)


def bring(
    yard: Yard, streams: Streams, writer: YardWriter, late: Late, capture: Capture, rng: Random
) -> None:
    """One round: the pipeline's tables come, its streams start, and its rows are right."""
    yard.make_tables(late)
    writer.follow(late)
    killed = rng.choice(KILLED) if KILLS else ""
    print(f"{late}, {killed} is killed")  # noqa: T201
    until(lambda: len(writer.left) > 20, [streams])
    yard.publish(late)
    capture.run(streams, killed, rng)
    both = Streams(streams.settings, [*streams.names, *(f"{late.name}__{mode}" for mode in MODES)])

    def has_rows(mode: Mode) -> bool:
        return (
            sum(row["tx_id"] is not None for row in change_log(yard, late.name, mode)) > ROWS_MORE
        )

    until(lambda: all(has_rows(mode) for mode in MODES), [both])
    assert writer.failure is None, repr(writer.failure)
    for mode in MODES:
        require_all(change_log(yard, late.name, mode), late, list(writer.left))
    launcher.stop(yard.settings, [f"{late.name}__{mode}" for mode in MODES], "the round is over")


def lateness(yard: Yard, spans: list[tuple[float, float]]) -> str:
    """How long after their commit the first pipeline's rows of these times were readable."""
    seconds = sorted(
        (row["written_at"] - row["committed_at"]).total_seconds()
        for mode in MODES
        for row in change_log(yard, FIRST, mode)
        for at in [row["committed_at"].timestamp()]
        if row["tx_id"] is not None and any(began <= at < ended for began, ended in spans)
    )
    p50, p95, p99 = (seconds[int(len(seconds) * share)] for share in (0.5, 0.95, 0.99))
    return f"{len(seconds):,} rows, p50 {p50:.2f} s, p95 {p95:.2f} s, p99 {p99:.2f} s"


def test_tables_come_to_a_captured_source_while_it_is_written_and_killed(
    yard: Yard, tmp_path: Path
) -> None:
    print(f"LATE_SEED {SEED}")  # noqa: T201 - shown when a test fails
    rng = Random(SEED)
    settings = yard.settings.of(FIRST)
    capture_source(settings, read_project(yard.folder), read_project(yard.folder).source(SOURCE))
    streams = Streams(settings, [str(mode) for mode in MODES])
    writer = YardWriter(yard, SEED)
    writer.start()
    capture = Capture(yard, tmp_path / "capture.log")
    try:
        until(lambda: all(change_log(yard, FIRST, mode) for mode in MODES), [streams])
        quiet, busy = [], []
        for number in range(ROUNDS):
            started = time.monotonic()
            if not KILLS:
                time.sleep(QUIET_SECONDS)
                quiet.append((time.time() - QUIET_SECONDS, time.time()))
            began = time.time()
            bring(yard, streams, writer, late_of(number, rng), capture, rng)
            busy.append((began, time.time()))
            print(f"round {number}: {time.monotonic() - started:.0f} s")  # noqa: T201
        if not KILLS:
            print(f"quiet: {lateness(yard, quiet)}")  # noqa: T201
            print(f"while tables come: {lateness(yard, busy)}")  # noqa: T201
        taken = read_side_snapshots(settings, SOURCE)
        assert not taken.incomplete
    finally:
        writer.end()
        streams.stop()


EDITED = "SELECT id, moved_at, weight * 2 AS weight, place FROM containers"


def newest(log: list[dict]) -> dict[int, tuple]:
    """Of each container that is there its row, by the log's last change."""
    last = {row["id"]: row for row in log}
    return {key: (row["weight"], row["place"]) for key, row in last.items() if row["op"] != "d"}


def test_an_edited_query_is_applied_while_the_streams_run(yard: Yard, tmp_path: Path) -> None:
    settings, log = yard.settings.of(FIRST), tmp_path / "apply.log"
    capture_source(settings, read_project(yard.folder), read_project(yard.folder).source(SOURCE))
    streams = Streams(settings, [str(mode) for mode in MODES])
    writer = YardWriter(yard, SEED)
    writer.start()
    try:
        until(
            lambda: all(len(change_log(yard, FIRST, mode)) > ROWS_MORE for mode in MODES), [streams]
        )
        before = yard.plan(FIRST).version
        (yard.folder / "include" / "sql" / FIRST / "query.sql").write_text(EDITED)
        applied = lockstep(yard, log, "pipeline", "apply", FIRST, "--yes")
        assert applied.wait(CAPTURE_SECONDS_MAX) == 0, log.read_text()[-3000:]
        writer.end()
        with yard.owner() as owner:
            rows = owner.execute("SELECT id, weight * 2, place FROM containers").fetchall()
        expected = {key: tuple(row) for key, *row in rows}
        until(
            lambda: all(newest(change_log(yard, FIRST, mode)) == expected for mode in MODES),
            [streams],
        )
        for mode in MODES:
            table = DeltaTable(settings.table_uri(yard.plan(FIRST).change_log(mode)))
            assert table.metadata().description == yard.plan(FIRST).version != before
            found = {(row["tx_id"], row["id"]) for row in change_log(yard, FIRST, mode)}
            written = {
                (one.tx_id, key) for one in writer.left for key in one.touched.get(FIRST, ())
            }
            assert written <= found
        again = lockstep(yard, log, "pipeline", "apply", FIRST)
        assert again.wait(CAPTURE_SECONDS_MAX) == 0
        assert log.read_text().endswith("containers: no table is to be changed\n")
    finally:
        writer.end()
        streams.stop()


PLACES_QUERY = "SELECT id, moved_at, place AS weight FROM containers"


def test_a_column_that_somebody_renames_stops_the_pipelines_that_read_it_by_name(
    yard: Yard,
) -> None:
    """The others go on, and so does the history that they share."""
    yard.write_pipeline("places", FIRST, PLACES_QUERY)
    yard.write_pipeline("weights", FIRST, FIRST_QUERY)
    project = read_project(yard.folder)
    capture_source(yard.settings, project, project.source(SOURCE))
    settings = yard.settings.of("places")
    others = Streams(settings, list(map(str, MODES)))
    stopped = Streams(settings, [f"weights__{mode}" for mode in MODES])
    try:
        until(lambda: bool(change_log(yard, "places", Mode.TEMPORAL)), [others])
        until(lambda: bool(change_log(yard, "weights", Mode.TEMPORAL)), [stopped])
        with yard.owner() as owner:
            owner.execute("ALTER TABLE containers RENAME weight TO kilograms")
            owner.execute(  # the tests before may have deleted it
                "INSERT INTO containers VALUES (1, 77, 1, now()) "
                "ON CONFLICT (id) DO UPDATE SET place = excluded.place"
            )
        until(lambda: lease.holder(settings, "weights__temporal") is None, [others])
        ended = read_heartbeat(settings, "weights__temporal")
        assert "table public.containers, column weight" in ended.error.message
        until(lambda: change_log(yard, "places", Mode.TEMPORAL)[-1]["weight"] == 77, [others])
        uri = settings.table_uri(settings.names.history)
        passed = change_log(yard, "places", Mode.TEMPORAL)[-1]["commit_lsn"]
        until(lambda: reached_of(DeltaTable(uri)).frontier >= passed, [others])
        with yard.owner() as owner:
            owner.execute("ALTER TABLE containers RENAME kilograms TO weight")
    finally:
        others.stop()
        stopped.stop()
