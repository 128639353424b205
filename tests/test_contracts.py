"""Windows are half-open, in UTC, and refuse what cannot be one."""

from datetime import UTC, datetime

import pytest
from lockstep.errors import WindowError
from lockstep.model.window import Window


def test_times_without_a_zone_are_utc() -> None:
    assert Window.parse("2015-01-01T11:00", "2015-01-01T12:00").start == datetime(
        2015, 1, 1, 11, tzinfo=UTC
    )


def test_other_zones_are_turned_into_utc() -> None:
    window = Window.parse("2015-01-01T13:00+02:00", "2015-01-01T12:00Z")
    assert window.start == datetime(2015, 1, 1, 11, tzinfo=UTC)
    assert window.start.tzinfo is UTC


@pytest.mark.parametrize("end", ["2015-01-01T10:00Z", "2015-01-01T11:00Z"])
def test_an_end_not_after_its_start_is_refused(end: str) -> None:
    with pytest.raises(WindowError, match="not after its start"):
        Window.parse("2015-01-01T11:00Z", end)


def test_what_is_no_time_is_refused_by_name() -> None:
    with pytest.raises(WindowError, match="window end 'noon' is not an ISO 8601 time"):
        Window.parse("2015-01-01T11:00Z", "noon")


def test_a_naive_datetime_is_refused() -> None:
    with pytest.raises(WindowError, match="has no time zone"):
        Window(datetime(2015, 1, 1), datetime(2015, 1, 2))
