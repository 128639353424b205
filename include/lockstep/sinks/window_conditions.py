"""Rows of a window, and up to a frontier, as conditions in the SQL of Spark and DataFusion."""

from datetime import datetime, timedelta

from lockstep.model.window import Window
from lockstep.pipeline.result_tables import HOURLY_PARTITION


def inside(window: Window, time: str) -> str:
    """The condition for a row of the window in an hourly table, first by its partition.

    time: the column that says which window a row is in, in SQL. Files of other days are not opened,
    and of these days only those whose times, by Delta's statistics, overlap the window. Whole days
    are named by their partitions alone, so that replacing them opens no file.
    """
    days = _of_days(window)
    is_of_whole_days = not (_within_day(window.start) or _within_day(window.end))
    return days if is_of_whole_days else f"{days} AND {of_time(window, time)}"


def inside_for_write(window: Window, time: str) -> str:
    """`inside` for the predicate of a write by delta-rs; `time` is a timestamp.

    delta-rs 1.6 refuses TIMESTAMP literals there (nanoseconds without a zone), and reads a text as
    what it is compared with.
    """
    bounds = f"{time} >= '{window.start.isoformat()}' AND {time} < '{window.end.isoformat()}'"
    return f"{_of_days(window)} AND {bounds}"


def of_time(window: Window, time: str) -> str:
    """The same of a table with other partitions."""
    return (
        f"{time} >= TIMESTAMP '{window.start.isoformat()}' "
        f"AND {time} < TIMESTAMP '{window.end.isoformat()}'"
    )


def up_to(frontier: int | None) -> str:
    """The condition for a change of a change log that it had at this frontier; None: for any."""
    return "TRUE" if frontier is None else f"commit_lsn <= {frontier}"


def _within_day(instant: datetime) -> timedelta:
    """Since the day's beginning, in UTC."""
    return instant - instant.replace(hour=0, minute=0, second=0, microsecond=0)


def _of_days(window: Window) -> str:
    last = window.end - timedelta(microseconds=1)
    return (
        f"{HOURLY_PARTITION} >= DATE '{window.start:%Y-%m-%d}' "
        f"AND {HOURLY_PARTITION} <= DATE '{last:%Y-%m-%d}'"
    )
