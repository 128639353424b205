"""Windows of an hourly table whose time is a day: its rows are in the day's first hour, in UTC."""

import time
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from lockstep.cdc.cuts import Cut
from lockstep.cdc.run_commits import RunCommit
from lockstep.model.modes import BATCH, ReadMode
from lockstep.model.window import Window
from lockstep.pipeline.delta_types import arrow_schema
from lockstep.pipeline.result import Result
from lockstep.pipeline.result_tables import HOURLY_COLUMNS
from lockstep.publish.from_hourly import publish_hourly
from lockstep.publish.table import Mark, open_or_create
from lockstep.settings import Settings

RESULT = Result({"The Day": "date", "Id": "bigint"}, ("Id",), "The Day")
SCHEMA = arrow_schema({**RESULT.columns, **HOURLY_COLUMNS})
DAYS = [date(2026, 3, day) for day in (1, 2, 3)]


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The machine's own zone is none of the table's business."""
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def write_hourly(folder: Path, rows: list[tuple[date, int]], run: RunCommit | None) -> DeltaTable:
    """The hourly table with these rows and no more."""
    content = [
        {"The Day": day, "Id": number, "window_date": day, "cut_lsn": 7} for day, number in rows
    ]
    metadata = {"userMetadata": run.as_json()} if run else {}
    write_deltalake(
        folder,
        pa.Table.from_pylist(content, SCHEMA),
        mode="overwrite",
        commit_properties=CommitProperties(custom_metadata=metadata),
    )
    return DeltaTable(folder)


def test_days_are_published_whole_and_one_by_one(settings: Settings, tmp_path: Path) -> None:
    rows = [(day, number) for number, day in enumerate(DAYS)]
    hourly = write_hourly(tmp_path / "hourly", rows, None)
    table = open_or_create(settings, RESULT)
    publish_hourly(table, hourly, RESULT, None, Mark(BATCH, hourly.version()))
    assert rows_of(table) == {(day, 0, number) for day, number in rows}

    start = datetime(2026, 3, 2, tzinfo=UTC)
    window = Window(start, start + timedelta(days=1))
    run = RunCommit(window, ReadMode.TABLES, 1, Cut("a run", "7:7:", 9, window.end))
    others = [(DAYS[0], 10), (DAYS[1], 11), (DAYS[2], 12)]
    hourly = write_hourly(tmp_path / "hourly", others, run)
    publish_hourly(table, hourly, RESULT, 0, Mark(BATCH, hourly.version()))
    assert rows_of(table) == {(DAYS[0], 0, 0), (DAYS[1], 0, 11), (DAYS[2], 0, 2)}


def rows_of(table: DeltaTable) -> set[tuple]:
    found = table.to_pyarrow_table().to_pylist()
    assert all(row["The Day"] == row["order_date"] for row in found)
    return {(row["The Day"], row["order_hour"], row["Id"]) for row in found}
