"""Which windows an hourly table has, whatever the name of its time column is."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from lockstep.model.window import HOUR, Window
from lockstep.sources.hourly_runs import windows_since

START = datetime(2026, 3, 28, 12, tzinfo=UTC)
TIME = 'measured "at"'


def test_without_commits_of_runs_the_windows_are_the_hours_that_have_rows(tmp_path: Path) -> None:
    times = [START + timedelta(minutes=n) for n in (0, 59, 61, 185)]
    column = pa.array(times, pa.timestamp("us", "UTC"))
    rows = pa.table({TIME: column, "window_date": column.cast(pa.date32())})
    write_deltalake(str(tmp_path), rows, partition_by=["window_date"])
    table = DeltaTable(str(tmp_path))
    assert windows_since(table, None, TIME) == [
        Window(START, START + 2 * HOUR),
        Window(START + 3 * HOUR, START + 4 * HOUR),
    ]
    assert windows_since(table, table.version(), TIME) == []
