"""When a pipeline's DAG runs, and over which window, in Airflow's terms. Rules are in windows.py.

A cron string would give runs without a data interval, and Airflow's own interval timetable starts
a run at the very end of its interval; here the run starts when its window is due.
"""

from datetime import UTC, datetime, timedelta
from typing import Any, Self

from airflow.timetables.base import DagRunInfo, DataInterval, TimeRestriction, Timetable
from pendulum import DateTime, instance

from lockstep.model.window import Window
from lockstep.model.windows import Windows


class WindowTimetable(Timetable):
    """A run for each window when it is due: the same windows for schedules, backfills, by hand."""

    def __init__(self, windows: Windows = Windows()) -> None:  # noqa: B008 - it never changes
        self.windows = windows
        self.description = (
            "Every hour at minute 5, over the hour before: [hh-1:00, hh:00) UTC"
            if windows == Windows()
            else f"For {windows} that is over, {_minutes(windows.delay)} after its end"
        )

    @property
    def summary(self) -> str:
        """The schedule as the UI's lists show it."""
        if self.windows == Windows():
            return "hh:05 for [hh-1:00, hh:00)"
        return f"{self.windows}, {_minutes(self.windows.delay)} after its end"

    def serialize(self) -> dict[str, Any]:
        """Seconds, and a name of a time zone."""
        windows = self.windows
        seconds = (windows.every.total_seconds(), windows.delay.total_seconds())
        return {"every": seconds[0], "delay": seconds[1], "zone": windows.zone}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> Self:
        every, delay = (timedelta(seconds=data[name]) for name in ("every", "delay"))
        return cls(Windows(every, delay, data["zone"]))

    def infer_manual_data_interval(self, *, run_after: DateTime) -> DataInterval:
        """The window of a run started by hand; Airflow passes its logical date as `run_after`."""
        return _interval(self.windows.asked_for(_plain(run_after), as_of=_now()))

    def next_dagrun_info(
        self,
        *,
        last_automated_data_interval: DataInterval | None,
        restriction: TimeRestriction,
    ) -> DagRunInfo | None:
        """The run after the last one, within the restriction.

        Without catch-up the windows missed while Airflow was down are skipped, except the latest
        one that is due.
        """
        bounds = []
        if last_automated_data_interval is not None:
            bounds.append(self.windows.first_from(_plain(last_automated_data_interval.end)))
        if restriction.earliest is not None:
            bounds.append(self.windows.first_from(_plain(restriction.earliest)))
        if not restriction.catchup:
            bounds.append(self.windows.last_due(_now()))
        if not bounds:
            return None
        window = max(bounds, key=lambda bound: bound.start)
        if restriction.latest is not None and window.start > restriction.latest:
            return None
        return DagRunInfo(
            run_after=instance(self.windows.due_at(window)),
            data_interval=_interval(window),
            partition_date=None,
            partition_key=None,
        )


class HourlyWindowTimetable(WindowTimetable):
    """As earlier versions serialized it, by its name alone: of an hour, due five minutes after."""

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> Self:
        return cls()


def _minutes(delay: timedelta) -> str:
    return f"{delay / timedelta(minutes=1):g} min"


def _interval(window: Window) -> DataInterval:
    return DataInterval(start=instance(window.start), end=instance(window.end))


def _plain(moment: DateTime) -> datetime:
    """pendulum's own, once it is moved to datetime.UTC, loses its zone in additions."""
    return datetime.fromtimestamp(moment.timestamp(), UTC)


def _now() -> datetime:
    return datetime.now(UTC)
