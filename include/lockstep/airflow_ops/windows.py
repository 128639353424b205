"""Which hour a run of the hourly DAG is about. Never imports Airflow and reads no clock.

A window is a whole hour [hh-1:00, hh:00) UTC and is due at hh:05: the five minutes let orders
that were taken just before the hour commit before the hour is read.
"""

from datetime import UTC, datetime
from typing import Protocol

from lockstep.errors import WindowError
from lockstep.model.window import HOUR, WINDOW_DUE_AFTER, Window, last_due_window


class RunTimes(Protocol):
    """The times of a DAG run, as Airflow hands them to a task (`dag_run` in its context)."""

    logical_date: datetime | None
    data_interval_start: datetime | None
    data_interval_end: datetime | None
    run_after: datetime


def hour_from(start: datetime) -> Window:
    """The window that begins at `start`, which must be on the hour."""
    return Window(start, start + HOUR)


def due_at(window: Window) -> datetime:
    """When the window may be run: hh:05."""
    return window.end + WINDOW_DUE_AFTER


def last_due(as_of: datetime) -> Window:
    """The latest window whose hh:05 is not after `as_of`."""
    return last_due_window(as_of)


def first_from(instant: datetime) -> Window:
    """The first window that does not begin before `instant`."""
    floor = _floor(instant)
    return hour_from(floor if floor == instant else floor + HOUR)


def asked_for(instant: datetime, as_of: datetime) -> Window:
    """The window of a run that a user starts by hand, at `as_of`, with the date `instant`.

    A date on the hour names the window that begins there, as a scheduled run's logical date does.
    Any other date is a moment ("now"), and means the latest window due by then. A window that is
    not yet due is never given: the latest due one is given in its place.
    """
    if _is_hour(instant) and due_at(hour_from(instant)) <= as_of:
        return hour_from(instant)
    return last_due(min(instant, as_of))


def of_run(run: RunTimes) -> Window:
    """The window a run processes, however the run was started.

    That is its data interval, with two exceptions that Airflow 3.3 makes for runs started by hand:
    a run without logical date has no interval, and means the latest window due at `run_after`;
    `airflow dags trigger --logical-date T` gives the run the interval of the moment, whatever T
    is, so a T on the hour wins over that interval.
    Raises WindowError when the interval is not one whole hour.
    """
    if run.data_interval_start is None or run.data_interval_end is None:
        return last_due(run.run_after)
    interval = Window(run.data_interval_start, run.data_interval_end)
    if run.logical_date is not None and interval == last_due(run.run_after):
        interval = asked_for(run.logical_date, run.run_after)
    if not _is_hour(interval.start) or interval.duration != HOUR:
        raise WindowError(
            f"the run's data interval {interval} is not one whole hour; start runs of several "
            "hours as a backfill, and any other window with `lockstep batch run --start --end`"
        )
    return interval


def _floor(instant: datetime) -> datetime:
    return instant.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def _is_hour(instant: datetime) -> bool:
    return instant == _floor(instant)
