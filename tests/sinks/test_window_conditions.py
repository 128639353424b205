"""Which rows a window's conditions select, in an hourly table and in the published one."""

from datetime import UTC, datetime, timedelta
from random import Random

import pytest
import sqlglot
from lockstep.model.window import Window
from lockstep.publish.from_hourly import of_hours, whole_hours
from lockstep.sinks.window_conditions import inside, inside_for_write, of_time
from sqlglot.executor import execute

START = datetime(2024, 2, 27, 22, tzinfo=UTC)


def selected(condition: str, instants: list[datetime]) -> set[datetime]:
    rows = [
        {
            "order_time": f"{at:%Y-%m-%d %H:%M:%S}",
            "window_date": f"{at:%Y-%m-%d}",
            "order_date": f"{at:%Y-%m-%d}",
            "order_hour": at.hour,
        }
        for at in instants
    ]
    # The executor knows neither dates nor zones; as texts of one form they compare alike.
    condition = condition.replace("DATE '", "'").replace("TIMESTAMP '", "'")
    condition = condition.replace("T", " ").replace("+00:00", "")
    query = f"SELECT order_time FROM orders WHERE {condition}"
    found = execute(sqlglot.parse_one(query), tables={"orders": rows}).rows
    return {datetime.fromisoformat(text).replace(tzinfo=UTC) for (text,) in found}


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("step", [timedelta(hours=1), timedelta(minutes=7)])
def test_the_condition_selects_exactly_the_window(seed: int, step: timedelta) -> None:
    rng = Random(seed)
    start = START + step * rng.randrange(20)
    window = Window(start, start + step * rng.randint(1, 60))
    instants = [START + timedelta(minutes=7) * n for n in range(500)]
    instants += [window.start, window.end, window.end - timedelta(seconds=1)]
    expected = {at for at in instants if window.start <= at < window.end}
    for condition in (inside, inside_for_write, of_time):
        assert selected(condition(window, "order_time"), instants) == expected, (
            f"seed {seed}, {window}"
        )


@pytest.mark.parametrize("seed", range(10))
def test_the_published_tables_condition_selects_exactly_the_windows_hours(seed: int) -> None:
    rng = Random(seed)
    start = START + timedelta(minutes=7) * rng.randrange(200)
    window = Window(start, start + timedelta(minutes=7) * rng.randint(1, 400))
    hours = whole_hours(window)
    instants = [START + timedelta(minutes=7) * n for n in range(700)]
    instants += [hours.start, hours.end, hours.end - timedelta(seconds=1)]
    expected = {at for at in instants if hours.start <= at < hours.end}
    assert selected(of_hours(hours), instants) == expected, f"seed {seed}, {window}"


def test_whole_hours_are_selected_by_partition_alone() -> None:
    day = Window.parse("2024-02-28", "2024-02-29")
    assert "order_time" not in of_hours(day)


def test_whole_days_of_an_hourly_table_are_selected_by_partition_alone() -> None:
    days = Window.parse("2024-02-28", "2024-03-01")
    assert "order_time" not in inside(days, "order_time")
    moments = [days.start, days.end - timedelta(seconds=1), days.end]
    moments.append(days.start - timedelta(seconds=1))
    assert selected(inside(days, "order_time"), moments) == set(moments[:2])
