"""The table of metrics: what a row says, who gives way to whom, and how it stays small."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from lockstep.model.modes import HISTORY, StreamMode
from lockstep.observe import stream_metrics
from lockstep.observe.stream_metrics import SCHEMA, StreamMetrics, append
from lockstep.settings import Settings
from lockstep.sinks.local_lakehouse import sole_writer
from lockstep.supervise.desired import DesiredState, desired_path, write_desired
from lockstep.supervise.heartbeat import (
    DriverState,
    Heartbeat,
    HeartbeatError,
    IncompleteTransaction,
    Latency,
    Percentiles,
)
from pizzeria.names import STREAM_METRICS

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home")


def beat(mode: str = StreamMode.OUTBOX, at: datetime = NOON, **known: object) -> Heartbeat:
    return Heartbeat(mode, 4711, NOON, at, DriverState.RUNNING, **known)


def written(settings: Settings) -> list[dict]:
    table = DeltaTable(settings.table_uri(STREAM_METRICS)).to_pyarrow_table()
    assert set(table.column_names) == set(SCHEMA.names)
    return table.sort_by([("measured_at", "ascending"), ("mode", "ascending")]).to_pylist()


def test_streams_of_two_pipelines_have_own_names(settings: Settings, tmp_path: Path) -> None:
    for pipeline in ("readings", "ratings"):
        for file, text in (
            (f"sql/{pipeline}/pipeline.toml", 'sources = ["plant"]\n'),
            ("sources/plant/source.toml", 'database = "plant"\n'),
        ):
            (tmp_path / "include" / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "include" / file).write_text(text)
    (tmp_path / "pyproject.toml").write_text('[tool.lockstep]\npipeline = "readings"\n')
    here = settings.model_copy(update={"project": tmp_path})
    append(here.of("readings"), [beat()])
    append(here.of("ratings"), [beat(at=NOON + timedelta(seconds=1)), beat(HISTORY)])
    modes = [row["mode"] for row in written(here)]
    assert sorted(modes) == ["history", "outbox", "ratings__outbox"]


def test_a_row_holds_what_the_heartbeat_says(settings: Settings) -> None:
    write_desired(settings, StreamMode.OUTBOX, DesiredState.RUNNING, "a test", restarts=2)
    append(
        settings,
        [
            beat(
                frontier=99,
                lag_bytes=1024,
                latency=Latency(0.1, 0.2, 0.3, {"write": Percentiles(0.01, 0.02, 0.03)}),
                incomplete=(IncompleteTransaction(5, 1.0, 1, 2),),
                error=HeartbeatError("StreamError", "out of luck"),
            )
        ],
    )
    (row,) = written(settings)
    assert (row["mode"], row["pid"], row["state"]) == ("outbox", 4711, "running")
    assert (row["measured_at"], row["measured_date"]) == (NOON, date(2026, 3, 1))
    assert (row["frontier"], row["lag_bytes"], row["lag_seconds"]) == (99, 1024, None)
    assert (row["latency_p50_seconds"], row["latency_p99_seconds"]) == (0.1, 0.3)
    assert row["latency_write_p95_seconds"] == 0.02
    assert row["latency_capture_p95_seconds"] is None
    assert (row["incomplete_transactions"], row["restarts"]) == (1, 2)
    assert row["error"] == "StreamError: out of luck"


def test_a_table_of_an_earlier_version_goes_on(settings: Settings) -> None:
    earlier = SCHEMA.remove(SCHEMA.get_field_index("driver_memory_bytes"))
    earlier = earlier.append(pa.field("state_bytes", pa.int64()))
    uri = settings.table_uri(STREAM_METRICS)
    DeltaTable.create(uri, earlier, partition_by=["measured_date"])
    before = {"mode": "outbox", "measured_at": NOON, "measured_date": NOON.date(), "state_bytes": 0}
    write_deltalake(uri, pa.Table.from_pylist([before], earlier), mode="append")
    append(settings, [beat(StreamMode.TEMPORAL, state_rows=5, driver_memory_bytes=2**31)])
    rows = DeltaTable(uri).to_pyarrow_table().sort_by("mode").to_pylist()
    assert [row["state_rows"] for row in rows] == [None, 5]
    assert [row["driver_memory_bytes"] for row in rows] == [None, 2**31]


def test_the_queries_of_one_driver_are_one_commit(settings: Settings) -> None:
    append(settings, [beat(StreamMode.OUTBOX), beat(StreamMode.TEMPORAL)])
    version = DeltaTable(settings.table_uri(STREAM_METRICS)).version()
    append(settings, [beat(StreamMode.OUTBOX), beat(StreamMode.TEMPORAL)])
    assert DeltaTable(settings.table_uri(STREAM_METRICS)).version() == version + 1
    assert [row["mode"] for row in written(settings)] == ["outbox"] * 2 + ["temporal"] * 2


def test_nothing_is_written_before_its_time(settings: Settings) -> None:
    metrics = StreamMetrics(settings, period_seconds=60)
    assert not metrics.write_when_due([beat()])
    assert not Path(settings.table_uri(STREAM_METRICS)).exists()
    now_and_then = StreamMetrics(settings, period_seconds=0)
    assert now_and_then.write_when_due([beat()])
    assert not now_and_then.write_when_due([])


def test_a_turn_is_left_out_while_another_driver_writes(settings: Settings) -> None:
    metrics = StreamMetrics(settings, period_seconds=0)
    with sole_writer(settings, STREAM_METRICS):
        assert not metrics.write_when_due([beat()])
    assert metrics.write_when_due([beat(at=NOON + timedelta(seconds=30))])
    assert [row["measured_at"] for row in written(settings)] == [NOON + timedelta(seconds=30)]


def test_a_stream_does_not_end_because_it_cannot_be_measured(settings: Settings) -> None:
    settings.home.mkdir()
    Path(settings.lakehouse_uri).write_text("a file where the folder should be")
    assert not StreamMetrics(settings, period_seconds=0).write_when_due([beat()])


def test_files_are_few_and_rows_are_kept_for_thirty_days(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_metrics, "FILES_MAX", 33)
    days = [NOON + timedelta(days=day) for day in range(36)]
    times = [day + timedelta(minutes=minute) for day in days for minute in range(3)]
    for day in days:
        append(settings, [beat(at=at) for at in times if at.date() == day.date()])
        assert len(DeltaTable(settings.table_uri(STREAM_METRICS)).file_uris()) <= 34
    kept = [row["measured_at"] for row in written(settings)]
    assert kept == times[-len(kept) :]
    assert timedelta(days=30) <= kept[-1] - kept[0] <= timedelta(days=34)


def test_a_damaged_desired_state_costs_no_row_of_any_mode(settings: Settings) -> None:
    write_desired(settings, StreamMode.OUTBOX, DesiredState.RUNNING, "a test", restarts=2)
    write_desired(settings, StreamMode.TEMPORAL, DesiredState.RUNNING, "a test", restarts=3)
    desired_path(settings, StreamMode.OUTBOX).write_text("{")
    append(settings, [beat(StreamMode.OUTBOX), beat(StreamMode.TEMPORAL)])
    assert [row["restarts"] for row in written(settings)] == [None, 3]


def test_a_defect_in_measuring_ends_no_stream(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("no such column")

    monkeypatch.setattr(stream_metrics, "append", fail)
    assert not StreamMetrics(settings, period_seconds=0).write_when_due([beat()])
