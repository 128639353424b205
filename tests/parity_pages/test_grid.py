"""The cells of a page: the pipeline's own windows, of any length."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from lockstep.model.modes import StreamMode
from lockstep.model.verdict import Verdict
from lockstep.model.window import Window
from lockstep.model.windows import Windows
from lockstep.parity_pages.grid import SHOWN, Grid

from tests.ledger.compared_hours import line

QUARTER = Windows(timedelta(minutes=15))
BERLIN = Windows(timedelta(days=1), timedelta(hours=1), "Europe/Berlin")
NOON = datetime(2026, 3, 30, 12, tzinfo=UTC)


def test_the_last_windows_end_with_the_newest() -> None:
    grid = Grid.up_to(QUARTER, NOON)
    assert len(grid.windows) == SHOWN
    assert grid.windows[-1] == Window(NOON - timedelta(minutes=15), NOON)
    assert grid.windows[0].start == NOON - timedelta(hours=12)
    assert [tick for tick in grid.ticks if tick] == ["00:00", "03:00", "06:00", "09:00"]
    assert grid.unit == "window"


def test_days_are_those_of_their_zone_and_have_a_tick_on_mondays() -> None:
    stretch = Window.parse("2026-03-27T23:00Z", "2026-03-30T22:00Z")
    grid = Grid.inside(BERLIN, stretch)
    assert [window.duration // timedelta(hours=1) for window in grid.windows] == [24, 23, 24]
    assert grid.ticks == ["", "", "30 Mar"]
    assert grid.unit == "day"


def test_a_longer_comparison_is_in_each_window_that_it_covers() -> None:
    grid = Grid.inside(QUARTER, Window(NOON, NOON + timedelta(hours=1)))
    half = Window(NOON, NOON + timedelta(minutes=30))
    found = replace(line(0, Verdict.PASS), window=half)
    cells = grid.cells(StreamMode.OUTBOX, [found], lambda window, _mode: str(window))
    assert [cell["href"] for cell in cells] == [str(half)] * 2 + [""] * 2
    assert cells[0]["title"].startswith("2026-03-30 12:00 to 12:15 UTC: agrees")
    assert cells[-1]["title"] == "2026-03-30 12:45 to 13:00 UTC: not compared"
