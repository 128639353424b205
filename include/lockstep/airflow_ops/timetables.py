"""When the hourly DAG runs, and over which window, in Airflow's terms. Rules are in windows.py.

A cron string would give runs without a data interval, and Airflow's own interval timetable starts
a run at the very end of its interval; here the run starts five minutes later.
"""

from datetime import UTC, datetime

from airflow.timetables.base import DagRunInfo, DataInterval, TimeRestriction, Timetable
from pendulum import DateTime, instance

from lockstep.airflow_ops import windows
from lockstep.model.window import Window


class HourlyWindowTimetable(Timetable):
    """[hh-1:00, hh:00) UTC at hh:05, the same windows for schedules, backfills and manual runs.

    It has no parameters and no state, so it is serialized as its name alone.
    """

    description = "Every hour at minute 5, over the hour before: [hh-1:00, hh:00) UTC"

    @property
    def summary(self) -> str:
        """The schedule as the UI's lists show it."""
        return "hh:05 for [hh-1:00, hh:00)"

    def infer_manual_data_interval(self, *, run_after: DateTime) -> DataInterval:
        """The window of a run started by hand; Airflow passes its logical date as `run_after`."""
        return _interval(windows.asked_for(_plain(run_after), as_of=_now()))

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
            bounds.append(windows.first_from(_plain(last_automated_data_interval.end)))
        if restriction.earliest is not None:
            bounds.append(windows.first_from(_plain(restriction.earliest)))
        if not restriction.catchup:
            bounds.append(windows.last_due(_now()))
        if not bounds:
            return None
        window = max(bounds, key=lambda bound: bound.start)
        if restriction.latest is not None and window.start > restriction.latest:
            return None
        return DagRunInfo(
            run_after=instance(windows.due_at(window)),
            data_interval=_interval(window),
            partition_date=None,
            partition_key=None,
        )


def _interval(window: Window) -> DataInterval:
    return DataInterval(start=instance(window.start), end=instance(window.end))


def _plain(moment: DateTime) -> datetime:
    """pendulum's own, once it is moved to datetime.UTC, loses its zone in additions."""
    return datetime.fromtimestamp(moment.timestamp(), UTC)


def _now() -> datetime:
    return datetime.now(UTC)
