"""Which hour a run is about, however it was started."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone

import pytest
from lockstep.airflow_ops import windows
from lockstep.errors import WindowError
from lockstep.model.window import Window


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def hour(text: str) -> Window:
    return Window(at(text), at(text) + timedelta(hours=1))


@dataclass
class Run:
    logical_date: datetime | None
    data_interval_start: datetime | None
    data_interval_end: datetime | None
    run_after: datetime


def run(window: Window | None, run_after: str, logical_date: datetime | None = None) -> Run:
    return Run(logical_date, window and window.start, window and window.end, at(run_after))


@pytest.mark.parametrize(
    ("as_of", "start"),
    [
        ("2026-11-21T10:04:59.999999", "2026-11-21T08:00"),
        ("2026-11-21T10:05:00", "2026-11-21T09:00"),
        ("2026-11-21T11:00:00", "2026-11-21T09:00"),
        ("2026-01-01T00:05:00", "2025-12-31T23:00"),
    ],
)
def test_a_window_is_due_five_minutes_after_its_hour(as_of, start):
    assert windows.last_due(at(as_of)) == hour(start)


@pytest.mark.parametrize(
    ("date", "start"),
    [
        ("2015-01-01T11:00", "2015-01-01T11:00"),  # names its hour
        ("2015-01-01T11:30", "2015-01-01T10:00"),  # a moment: the latest due by then
        ("2026-11-21T10:20:30", "2026-11-21T09:00"),  # now
        ("2026-11-21T09:00", "2026-11-21T09:00"),
        ("2026-11-21T10:00", "2026-11-21T08:00"),  # not over yet, so the latest due by that moment
        ("2030-01-01T00:00", "2026-11-21T09:00"),  # to come: the latest due now
    ],
)
def test_a_run_by_hand_takes_the_hour_named_or_the_latest_due(date, start):
    assert windows.asked_for(at(date), as_of=at("2026-11-21T10:20:30")) == hour(start)


def test_hours_are_utc_whatever_the_zone_of_the_date():
    kathmandu = timezone(timedelta(hours=5, minutes=45))
    date = datetime(2015, 1, 1, 16, 45, tzinfo=kathmandu)
    assert windows.asked_for(date, as_of=at("2026-01-01T00:00")) == hour("2015-01-01T11:00")


def test_a_scheduled_or_backfilled_run_takes_its_interval():
    window = hour("2015-01-01T11:00")
    assert windows.of_run(run(window, "2015-01-01T12:05", window.start)) == window


def test_a_run_without_logical_date_takes_the_latest_hour_due_when_it_starts():
    assert windows.of_run(run(None, "2026-11-21T10:03")) == hour("2026-11-21T08:00")


def test_the_date_given_on_the_command_line_wins_over_the_interval_airflow_invents():
    invented = hour("2026-11-21T09:00")
    asked = run(invented, "2026-11-21T10:20", at("2015-01-01T11:00"))
    assert windows.of_run(asked) == hour("2015-01-01T11:00")


def test_an_interval_given_to_the_api_wins_over_the_logical_date():
    given = hour("2015-01-01T11:00")
    assert windows.of_run(run(given, "2026-11-21T10:20", at("2015-01-01T12:00"))) == given


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("2015-01-01T11:00", "2015-01-02T11:00"),
        ("2015-01-01T11:20", "2015-01-01T12:20"),
        ("2015-01-01T11:00", "2015-01-01T11:30"),
    ],
)
def test_an_interval_that_is_not_one_whole_hour_is_refused(start, end):
    with pytest.raises(WindowError, match=r"not one whole hour.*lockstep batch run"):
        windows.of_run(run(Window(at(start), at(end)), "2026-11-21T10:20", at(start)))
