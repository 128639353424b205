"""Which hour a run is about, however it was started."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone

import pytest
from lockstep.errors import WindowError
from lockstep.model.window import Window
from lockstep.model.windows import Windows

windows = Windows()


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
    with pytest.raises(WindowError, match=r"not one window of an hour.*lockstep batch run"):
        windows.of_run(run(Window(at(start), at(end)), "2026-11-21T10:20", at(start)))


def test_windows_of_a_quarter_follow_each_other_from_midnight_on() -> None:
    quarters = Windows(timedelta(minutes=15), timedelta(minutes=2))
    window = quarters.at(at("2026-03-29T00:14:59"))
    assert (window.start, window.end) == (at("2026-03-29T00:00"), at("2026-03-29T00:15"))
    assert quarters.first_from(at("2026-03-29T00:01")).start == at("2026-03-29T00:15")
    assert quarters.last_due(at("2026-03-29T00:16:59")).start == at("2026-03-28T23:45")
    assert quarters.last_due(at("2026-03-29T00:17")).start == at("2026-03-29T00:00")


@pytest.mark.parametrize(
    ("zone", "instant", "start", "end"),
    [
        ("Europe/Berlin", "2026-03-29T12:00", "2026-03-28T23:00", "2026-03-29T22:00"),  # 23 h
        ("Europe/Berlin", "2026-10-25T00:30", "2026-10-24T22:00", "2026-10-25T23:00"),  # 25 h
        ("Europe/Berlin", "2026-10-25T23:00", "2026-10-25T23:00", "2026-10-26T23:00"),
        ("America/Santiago", "2026-09-06T12:00", "2026-09-06T04:00", "2026-09-07T03:00"),  # no 0:00
        ("UTC", "2026-10-25T00:30", "2026-10-25T00:00", "2026-10-26T00:00"),
    ],
)
def test_a_day_is_of_its_zone_also_when_the_clocks_change(zone, instant, start, end) -> None:
    days = Windows(timedelta(days=1), timedelta(hours=1), zone)
    window = days.at(at(instant))
    assert (window.start, window.end) == (at(start), at(end))
    assert days.at(window.end).start == window.end
    assert days.last_due(window.end + timedelta(hours=1)) == window
    assert days.first_from(window.start) == window


def test_the_windows_of_two_years_have_no_gap_and_do_not_overlap() -> None:
    for zone in ("Europe/Berlin", "America/Santiago", "Asia/Kathmandu"):
        days = Windows(timedelta(days=1), timedelta(), zone)
        window = days.at(at("2011-01-01T12:00"))
        for _ in range(800):
            following = days.first_from(window.end)
            assert following.start == window.end, zone
            assert timedelta(hours=23) <= following.duration <= timedelta(hours=25), zone
            window = following


@pytest.mark.parametrize(
    ("of", "start", "end", "count"),
    [
        (Windows(), "2026-03-28T22:00", "2026-03-29T22:00", 24),
        (Windows(), "2026-03-28T22:10", "2026-03-29T00:50", 1),  # whole ones alone
        (Windows(), "2026-03-28T22:10", "2026-03-28T22:50", 0),
        (Windows(timedelta(minutes=15)), "2026-03-28T22:00", "2026-03-29T00:00", 8),
        # A day of 23 hours and one of 24.
        (
            Windows(timedelta(days=1), zone="Europe/Berlin"),
            "2026-03-28T23:00",
            "2026-03-30T22:00",
            2,
        ),
        (
            Windows(timedelta(days=1), zone="Europe/Berlin"),
            "2026-03-28T22:59",
            "2026-03-30T22:00",
            2,
        ),
        (
            Windows(timedelta(days=1), zone="Europe/Berlin"),
            "2026-03-28T23:00",
            "2026-03-30T21:59",
            1,
        ),
    ],
)
def test_windows_between_two_instants_are_counted_whole(of, start, end, count) -> None:
    assert of.count(at(start), at(end)) == count
