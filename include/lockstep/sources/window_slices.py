"""How a window is cut into parts that one task each can read. Pure: no database, no clock."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from lockstep.model.window import Window

SLOTS = 1000
"""Slots a window is counted in: fine enough that a part misses its size by 0.1% of the window."""


@dataclass(frozen=True)
class SlotCount:
    """The number of rows in the slot [start, start + slot length)."""

    start: datetime
    rows: int


def slot_length(window: Window) -> timedelta:
    """The window's length divided into SLOTS, and never under a millisecond."""
    return max(window.duration / SLOTS, timedelta(milliseconds=1))


def slice_window(
    window: Window, counts: Iterable[SlotCount], rows_max: int, slices_min: int
) -> list[Window]:
    """Cut the window into consecutive parts that cover it without gap or overlap.

    counts: the slots that hold rows, in time order.
    rows_max: rows that a part should hold at the most; a single fuller slot is not split.
    slices_min: at least this many parts, where there are as many filled slots.
    """
    counts = list(counts)
    total = sum(slot.rows for slot in counts)
    rows_wanted = min(rows_max, -(-total // slices_min)) or 1
    bounds = [window.start, *_bounds_inside(counts, rows_wanted), window.end]
    return [Window(start, end) for start, end in pairwise(bounds)]


def _bounds_inside(counts: list[SlotCount], rows_wanted: int) -> Iterator[datetime]:
    rows = 0
    for slot in counts:
        if rows and rows + slot.rows > rows_wanted:
            yield slot.start
            rows = 0
        rows += slot.rows
