"""The windows of a pipeline, when each is due, and which a run is about. Reads no clock.

Windows follow each other without a gap from midnight on, and are due a while after their end: that
lets what was written just before it commit before the window is read.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Protocol, Self
from zoneinfo import ZoneInfo

from lockstep.errors import WindowError
from lockstep.model.window import HOUR, WINDOW_DUE_AFTER, Window

_DAY = timedelta(days=1)
_INSTANT = timedelta(microseconds=1)


class RunTimes(Protocol):
    """The times of a DAG run, as Airflow hands them to a task (`dag_run` in its context)."""

    logical_date: datetime | None
    data_interval_start: datetime | None
    data_interval_end: datetime | None
    run_after: datetime


class Schedule(Protocol):
    """As a manifest has it."""

    every: timedelta
    delay: timedelta
    zone: str


@dataclass(frozen=True)
class Windows:
    """The windows of one pipeline. zone: at whose midnight windows of a day begin; others: UTC's.

    every: of a length that divides a day. delay: from a window's end until it is due.
    """

    every: timedelta = HOUR
    delay: timedelta = WINDOW_DUE_AFTER
    zone: str = "UTC"

    @classmethod
    def of(cls, schedule: Schedule) -> Self:
        """Those that a manifest asks for."""
        return cls(schedule.every, schedule.delay, schedule.zone)

    def at(self, instant: datetime) -> Window:
        """The window that holds the instant."""
        if self.every == _DAY:
            day = instant.astimezone(ZoneInfo(self.zone)).date()
            return Window(self._midnight(day), self._midnight(day + _DAY))
        instant = instant.astimezone(UTC)
        midnight = instant.replace(hour=0, minute=0, second=0, microsecond=0)
        start = midnight + (instant - midnight) // self.every * self.every
        return Window(start, start + self.every)

    def due_at(self, window: Window) -> datetime:
        """When the window may be run."""
        return window.end + self.delay

    def last_due(self, as_of: datetime) -> Window:
        """The latest window that is due at `as_of`."""
        return self.at(self.at(as_of - self.delay).start - _INSTANT)

    def first_from(self, instant: datetime) -> Window:
        """The first window that does not begin before `instant`."""
        window = self.at(instant)
        return window if window.start == instant else self.at(window.end)

    def count(self, start: datetime, end: datetime) -> int:
        """How many whole windows lie between the two."""
        first, after = self.first_from(start).start, self.at(end).start
        if self.every == _DAY:
            zone = ZoneInfo(self.zone)
            days = (after.astimezone(zone).date() - first.astimezone(zone).date()).days
            return max(0, days)
        return max(0, (after - first) // self.every)

    def asked_for(self, instant: datetime, as_of: datetime) -> Window:
        """The window of a run that a user starts by hand, at `as_of`, with the date `instant`.

        A date at which a window begins names that, as a scheduled run's logical date does. Any
        other date is a moment ("now"), and means the latest window due by then. A window that is
        not yet due is never given: the latest due one is given in its place.
        """
        window = self.at(instant)
        if window.start == instant and self.due_at(window) <= as_of:
            return window
        return self.last_due(min(instant, as_of))

    def of_run(self, run: RunTimes) -> Window:
        """The window a run processes, however the run was started.

        That is its data interval, with two exceptions that Airflow 3.3 makes for runs started by
        hand: a run without logical date has no interval, and means the latest window due at
        `run_after`; `airflow dags trigger --logical-date T` gives the run the interval of the
        moment, whatever T is, so a T at which a window begins wins over that interval.
        Raises WindowError when the interval is not one window.
        """
        if run.data_interval_start is None or run.data_interval_end is None:
            return self.last_due(run.run_after)
        interval = Window(run.data_interval_start, run.data_interval_end)
        if run.logical_date is not None and interval == self.last_due(run.run_after):
            interval = self.asked_for(run.logical_date, run.run_after)
        if interval != self.at(interval.start):
            raise WindowError(
                f"the run's data interval {interval} is not one window of {self}; start runs of "
                "several windows as a backfill, and any other window with `lockstep batch run "
                "--start --end`"
            )
        return interval

    def _midnight(self, day: date) -> datetime:
        """The instant at which the day begins; where clocks skip midnight, when they do."""
        return datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(self.zone)).astimezone(UTC)

    def __str__(self) -> str:
        if self.every == _DAY:
            return f"a day of {self.zone}"
        return "an hour" if self.every == HOUR else f"{self.every / timedelta(minutes=1):g} minutes"
