"""Brings the windows of the hourly table into the published table."""

from collections.abc import Sequence
from datetime import timedelta

import pyarrow as pa
from deltalake import DeltaTable

from lockstep.model.modes import BATCH
from lockstep.model.window import HOUR, Window
from lockstep.publish import table as published_table
from lockstep.publish.table import SCHEMA, Mark
from lockstep.sinks.delta_window import inside
from lockstep.sources.delta import run_query
from lockstep.sources.hourly_runs import joined

_COLUMNS = ", ".join(name for name in SCHEMA.names if name not in ("fed_by", "position"))


def publish_windows(
    published: DeltaTable, hourly: DeltaTable | None, windows: Sequence[Window], mark: Mark
) -> None:
    """Make the orders of these windows what the hourly table has, in one commit; the others stay.

    Without a window the commit changes no row.
    """
    if not windows:
        published_table.keep_rows(published, mark)
        return
    hours = _any_of(joined(whole_hours(window) for window in windows))
    within = _any_of(windows)
    # Of an hour that is not in a window whole, the rest stays.
    sql = f"""
        SELECT {_COLUMNS}, '{BATCH}' AS fed_by, cut_lsn AS position
        FROM hourly WHERE ({hours}) AND ({within})
        UNION ALL SELECT {_COLUMNS}, fed_by, position
        FROM published WHERE ({hours}) AND NOT ({within})
    """  # noqa: S608 - names and times only
    found = run_query(sql, {"hourly": hourly, "published": published})
    rows = pa.RecordBatchReader.from_batches(SCHEMA, (batch.cast(SCHEMA) for batch in found))
    published_table.replace_rows(published, rows, hours, mark)


def _any_of(windows: Sequence[Window]) -> str:
    return " OR ".join(f"({inside(window)})" for window in windows)


def whole_hours(window: Window) -> Window:
    """The hours that the window touches: the least that can be replaced by partitions' names."""
    start = window.start.replace(minute=0, second=0, microsecond=0)
    last = (window.end - timedelta(microseconds=1)).replace(minute=0, second=0, microsecond=0)
    return Window(start, last + HOUR)
