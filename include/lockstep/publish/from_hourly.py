"""Brings the windows of the hourly table into the published table."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

import pyarrow as pa
from deltalake import DeltaTable

from lockstep.model.modes import BATCH
from lockstep.model.window import HOUR, Window
from lockstep.pizzeria import ORDER_TIME, ORDERS_ENRICHED_PARTITIONS
from lockstep.publish import table as published_table
from lockstep.publish.table import SCHEMA, Mark
from lockstep.sinks.window_conditions import inside, of_time
from lockstep.sources.delta import run_query
from lockstep.sources.hourly_runs import joined

_DATE, _HOUR = ORDERS_ENRICHED_PARTITIONS
_INSTANT = timedelta(microseconds=1)
_ADDED = ("fed_by", "position")
_OWN_COLUMNS = ", ".join(name for name in SCHEMA.names if name not in _ADDED)
_HOURLY_COLUMNS = ", ".join(
    {
        _DATE: f"CAST({ORDER_TIME} AS DATE) AS {_DATE}",
        _HOUR: f"CAST(EXTRACT(HOUR FROM {ORDER_TIME}) AS INT) AS {_HOUR}",
    }.get(name, name)
    for name in SCHEMA.names
    if name not in _ADDED
)


def publish_windows(
    published: DeltaTable, hourly: DeltaTable | None, windows: Sequence[Window], mark: Mark
) -> None:
    """Make the orders of these windows what the hourly table has, in one commit; the others stay.

    Without a window the commit changes no row.
    """
    if not windows:
        published_table.keep_rows(published, mark)
        return
    hours = _any_of(of_hours(window) for window in joined(map(whole_hours, windows)))
    within = _any_of(of_time(window, ORDER_TIME) for window in windows)
    of_hourly = _any_of(inside(window, ORDER_TIME) for window in windows)
    # Of an hour that is not in a window whole, the rest stays.
    sql = f"""
        SELECT {_HOURLY_COLUMNS}, '{BATCH}' AS fed_by, cut_lsn AS position
        FROM hourly WHERE {of_hourly}
        UNION ALL SELECT {_OWN_COLUMNS}, fed_by, position
        FROM published WHERE ({hours}) AND NOT ({within})
    """  # noqa: S608 - names and times only
    found = run_query(sql, {"hourly": hourly, "published": published})
    rows = pa.RecordBatchReader.from_batches(SCHEMA, (batch.cast(SCHEMA) for batch in found))
    published_table.replace_rows(published, rows, hours, mark)


def _any_of(conditions: Iterable[str]) -> str:
    return " OR ".join(f"({condition})" for condition in conditions)


def whole_hours(window: Window) -> Window:
    """The hours that the window touches: the least that can be replaced by partitions' names."""
    return Window(_hour_of(window.start), _hour_of(window.end - _INSTANT) + HOUR)


def of_hours(window: Window) -> str:
    """The condition for a row of a window of whole hours in the published table.

    It names partitions alone: Delta neither opens nor writes a file of other hours.
    """
    first, last = window.start, window.end - HOUR
    return (
        f"({_DATE} > DATE '{first:%Y-%m-%d}' "
        f"OR {_DATE} = DATE '{first:%Y-%m-%d}' AND {_HOUR} >= {first.hour}) "
        f"AND ({_DATE} < DATE '{last:%Y-%m-%d}' "
        f"OR {_DATE} = DATE '{last:%Y-%m-%d}' AND {_HOUR} <= {last.hour})"
    )


def _hour_of(instant: datetime) -> datetime:
    return instant.replace(minute=0, second=0, microsecond=0)
