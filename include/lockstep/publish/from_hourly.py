"""Brings the windows of the hourly table into the published table."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

import pyarrow as pa
from deltalake import DeltaTable

from lockstep.model.window import HOUR, Window
from lockstep.pipeline.result import Result
from lockstep.pipeline.result_tables import PUBLISHED_PARTITIONS
from lockstep.pipeline.row_keys import quoted
from lockstep.publish import table as published_table
from lockstep.publish.queries import hourly_rows, published_rows
from lockstep.publish.table import Mark, schema_of
from lockstep.sinks.window_conditions import inside, of_time
from lockstep.sources.delta import run_query
from lockstep.sources.hourly_runs import joined, windows_since

_DATE, _HOUR = PUBLISHED_PARTITIONS
_INSTANT = timedelta(microseconds=1)


def publish_hourly(
    published: DeltaTable,
    hourly: DeltaTable | None,
    result: Result,
    since: int | None,
    mark: Mark,
) -> None:
    """Make the windows that runs wrote what the hourly table has, in one commit; the others stay.

    since: the hourly table's version that is published already; None for every window. Without a
    time there are no windows, and the hourly table is published whole. A commit with nothing to
    publish changes no row. Raises LakehouseError; then nothing has changed.
    """
    if hourly is None:
        published_table.keep_rows(published, mark)
    elif result.time is None:
        found = run_query(hourly_rows(result, "true"), {"hourly": hourly})
        published_table.replace_rows(published, _as_published(found, result), None, mark)
    elif windows := windows_since(hourly, since, result.time):
        _replace_windows(published, hourly, result, windows, mark)
    else:
        published_table.keep_rows(published, mark)


def _replace_windows(
    published: DeltaTable,
    hourly: DeltaTable,
    result: Result,
    windows: Sequence[Window],
    mark: Mark,
) -> None:
    time = quoted(result.time)
    hours = _any_of(of_hours(window) for window in joined(map(whole_hours, windows)))
    within = _any_of(of_time(window, time) for window in windows)
    of_hourly = _any_of(inside(window, time) for window in windows)
    # Of an hour that is not in a window whole, the rest stays.
    rest = published_rows(result, f"({hours}) AND NOT ({within})")
    found = run_query(
        f"{hourly_rows(result, of_hourly)} UNION ALL {rest}",
        {"hourly": hourly, "published": published},
    )
    published_table.replace_rows(published, _as_published(found, result), hours, mark)


def _as_published(found: pa.RecordBatchReader, result: Result) -> pa.RecordBatchReader:
    schema = schema_of(result)
    return pa.RecordBatchReader.from_batches(schema, (batch.cast(schema) for batch in found))


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
