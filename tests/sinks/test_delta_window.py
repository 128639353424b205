"""Which rows a window's condition selects, and that whole hours need no look into a file."""

from datetime import UTC, datetime, timedelta
from random import Random

import pytest
import sqlglot
from lockstep.model.window import Window
from lockstep.sinks.delta_window import inside
from sqlglot.executor import execute

START = datetime(2024, 2, 27, 22, tzinfo=UTC)


def selected(window: Window, instants: list[datetime]) -> set[datetime]:
    rows = [
        {
            "order_time": f"{at:%Y-%m-%d %H:%M:%S}",
            "order_date": f"{at:%Y-%m-%d}",
            "order_hour": at.hour,
        }
        for at in instants
    ]
    # The executor knows neither dates nor zones; as texts of one form they compare alike.
    condition = inside(window).replace("DATE '", "'").replace("TIMESTAMP '", "'")
    condition = condition.replace("T", " ").replace("+00:00", "")
    query = f"SELECT order_time FROM orders WHERE {condition}"
    found = execute(sqlglot.parse_one(query), tables={"orders": rows}).rows
    return {datetime.fromisoformat(text).replace(tzinfo=UTC) for (text,) in found}


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("step", [timedelta(hours=1), timedelta(minutes=7)])
def test_the_condition_selects_exactly_the_window(seed: int, step: timedelta) -> None:
    rng = Random(seed)
    start = START + step * rng.randrange(20)
    window = Window(start, start + step * rng.randint(1, 40))
    instants = [START + timedelta(minutes=7) * n for n in range(500)]
    instants += [window.start, window.end, window.end - timedelta(seconds=1)]
    expected = {at for at in instants if window.start <= at < window.end}
    assert selected(window, instants) == expected, f"seed {seed}, {window}"


def test_whole_hours_are_selected_by_partition_alone() -> None:
    day = Window.parse("2024-02-28", "2024-02-29")
    assert "order_time" not in inside(day)


def test_half_an_hour_is_not() -> None:
    half = Window.parse("2024-02-28T11:30", "2024-02-28T12:00")
    assert "order_time" in inside(half)
