"""The windows that Airflow's own code makes of the timetable: schedules, backfills, by hand."""

from datetime import UTC, datetime, timedelta

import pytest
from airflow.sdk import DAG
from airflow.serialization.serialized_objects import DagSerialization
from airflow.timetables.base import DataInterval, TimeRestriction
from lockstep.airflow_ops import timetables
from lockstep.airflow_ops.timetables import HourlyWindowTimetable, WindowTimetable
from lockstep.model.windows import Windows
from pendulum import instance

NOW = datetime(2026, 11, 21, 10, 20, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """Sets the time the timetable sees; 10:20 to begin with."""

    def set_to(now: datetime) -> None:
        monkeypatch.setattr(timetables, "_now", lambda: now)

    set_to(NOW)
    return set_to


@pytest.fixture
def registered(monkeypatch):
    """The timetable as registered by the plugin, without loading the plugins folder."""
    from airflow import plugins_manager
    from airflow.serialization import helpers  # noqa: F401

    name = f"{WindowTimetable.__module__}.{WindowTimetable.__qualname__}"
    monkeypatch.setattr(plugins_manager, "get_timetables_plugins", lambda: {name: WindowTimetable})


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def interval(start: str) -> DataInterval:
    return DataInterval(instance(at(start)), instance(at(start) + HOUR))


def next_run(last: str | None, *, earliest="2015-01-01T00:00", latest=None, catchup=False):
    return WindowTimetable().next_dagrun_info(
        last_automated_data_interval=last and interval(last),
        restriction=TimeRestriction(
            earliest and instance(at(earliest)), latest and instance(at(latest)), catchup
        ),
    )


def test_a_run_starts_five_minutes_after_its_window_and_is_dated_by_its_start():
    info = next_run("2026-11-21T08:00")
    assert info.data_interval == interval("2026-11-21T09:00")
    assert info.logical_date == at("2026-11-21T09:00")
    assert info.run_after == at("2026-11-21T10:05")


def test_the_first_run_is_the_latest_window_due():
    assert next_run(None).data_interval == interval("2026-11-21T09:00")


def test_windows_missed_while_airflow_was_down_are_skipped_but_the_latest_due(clock):
    clock(at("2026-11-21T11:02"))
    info = next_run("2026-11-21T03:00")
    assert info.data_interval == interval("2026-11-21T09:00"), "10:00 is due at 11:05 only"


def test_with_catchup_no_window_is_skipped():
    info = next_run("2026-11-21T03:00", catchup=True)
    assert info.data_interval == interval("2026-11-21T04:00")


def test_a_start_date_within_an_hour_begins_with_the_next_whole_hour():
    info = next_run(None, earliest="2015-01-01T11:30", catchup=True)
    assert info.data_interval == interval("2015-01-01T12:00")


def test_nothing_is_scheduled_after_the_end_date_or_without_any_bound():
    assert next_run("2026-11-21T08:00", latest="2026-11-21T08:30") is None
    assert next_run(None, earliest=None, catchup=True) is None


def test_a_year_of_schedules_has_no_gap_no_overlap_and_no_daylight_saving():
    last, starts = "2025-12-31T23:00", []
    for _ in range(365 * 24):
        info = next_run(last, catchup=True)
        starts.append(info.data_interval.start)
        assert info.run_after - info.data_interval.end == timedelta(minutes=5)
        last = info.data_interval.start.strftime("%Y-%m-%dT%H:%M")
    assert starts == [at("2026-01-01T00:00") + index * HOUR for index in range(365 * 24)]


def test_a_run_by_hand_takes_the_hour_its_logical_date_names():
    timetable = WindowTimetable()
    for date, start in (("2015-01-01T11:00", "2015-01-01T11:00"), (NOW, "2026-11-21T09:00")):
        moment = instance(at(date) if isinstance(date, str) else date)
        assert timetable.infer_manual_data_interval(run_after=moment) == interval(start)


@pytest.mark.usefixtures("registered")
def test_airflows_own_backfill_makes_24_hourly_runs_of_a_day():
    infos = backfill_infos(at("2015-01-01T00:00"), at("2015-01-01T23:00"))
    assert [info.data_interval for info in infos] == [
        interval(f"2015-01-01T{hour:02}:00") for hour in range(24)
    ]
    assert infos[3].run_after == at("2015-01-01T04:05")
    assert infos[3].logical_date == at("2015-01-01T03:00")


@pytest.mark.usefixtures("registered")
def test_backfill_bounds_within_an_hour_take_only_hours_that_begin_between_them():
    infos = backfill_infos(at("2015-01-01T10:30"), at("2015-01-01T12:59"))
    assert [info.logical_date.hour for info in infos] == [11, 12]


@pytest.mark.usefixtures("registered")
def test_a_backfill_up_to_the_future_makes_no_window_that_is_not_over():
    now = datetime.now(UTC)
    infos = backfill_infos(now - 5 * HOUR, now + 5 * HOUR)
    assert infos[-1].data_interval.end <= now
    assert infos[-1].data_interval.end > now - HOUR


def backfill_infos(from_date: datetime, to_date: datetime):
    """What Airflow's backfill makes of the serialized DAG, as the CLI, the UI and the API do."""
    from airflow.models.backfill import _get_info_list

    with DAG("hourly", schedule=WindowTimetable(), start_date=at("2015-01-01T00:00")) as dag:
        pass
    stored = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    assert type(stored.timetable) is WindowTimetable
    return _get_info_list(from_date=from_date, to_date=to_date, reverse=False, dag=stored)


def test_the_ui_gets_a_readable_schedule():
    timetable = WindowTimetable()
    assert timetable.summary == "hh:05 for [hh-1:00, hh:00)"
    assert "minute 5" in timetable.description
    assert WindowTimetable.deserialize(timetable.serialize()).summary == timetable.summary


def test_a_timetable_of_days_is_the_same_after_a_round_trip_through_airflow(registered) -> None:
    days = WindowTimetable(Windows(timedelta(days=1), timedelta(minutes=30), "Europe/Berlin"))
    with DAG("daily", schedule=days, start_date=at("2015-01-01T00:00")) as dag:
        pass
    stored = DagSerialization.from_dict(DagSerialization.to_dict(dag)).timetable
    assert stored.windows == days.windows
    assert stored.summary == "a day of Europe/Berlin, 30 min after its end"
    info = stored.next_dagrun_info(
        last_automated_data_interval=DataInterval(
            instance(at("2026-10-23T22:00")), instance(at("2026-10-24T22:00"))
        ),
        restriction=TimeRestriction(None, None, True),
    )
    assert info.data_interval.start == at("2026-10-24T22:00")
    assert info.data_interval.end == at("2026-10-25T23:00")
    assert info.run_after == at("2026-10-25T23:30")


def test_what_an_earlier_version_serialized_is_read() -> None:
    assert HourlyWindowTimetable.deserialize({}).windows == Windows()
