"""A window's parts cover it exactly and hold about as many rows each."""

import random
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from lockstep.model.window import Window
from lockstep.sources.window_slices import SlotCount, slice_window, slot_length

START = datetime(2015, 1, 1, 11, tzinfo=UTC)
HOUR = Window(START, START + timedelta(hours=1))


def slots(*rows: int) -> list[SlotCount]:
    minutes = (START + timedelta(minutes=n) for n in range(len(rows)))
    return [SlotCount(at, n) for at, n in zip(minutes, rows, strict=True) if n]


def rows_in(part: Window, counts: list[SlotCount]) -> int:
    return sum(slot.rows for slot in counts if part.start <= slot.start < part.end)


@pytest.mark.parametrize("seed", range(50))
def test_parts_cover_the_window_without_gap_or_overlap(seed: int) -> None:
    rng = random.Random(seed)
    counts = slots(*(rng.choice((0, 1, 5, 300)) for _ in range(60)))
    parts = slice_window(HOUR, counts, rng.randint(1, 400), rng.randint(1, 5))
    assert (parts[0].start, parts[-1].end) == (HOUR.start, HOUR.end), f"seed {seed}"
    assert all(before.end == after.start for before, after in pairwise(parts)), f"seed {seed}"


@pytest.mark.parametrize("seed", range(50))
def test_a_part_is_over_its_size_only_where_one_slot_is(seed: int) -> None:
    rng = random.Random(seed)
    counts = slots(*(rng.choice((0, 1, 5, 300)) for _ in range(60)))
    for part in slice_window(HOUR, counts, 100, 1):
        filled = [slot for slot in counts if part.start <= slot.start < part.end]
        assert len(filled) <= 1 or rows_in(part, counts) <= 100, f"seed {seed}"


def test_every_core_gets_a_part_of_a_small_window() -> None:
    assert len(slice_window(HOUR, slots(10, 10, 10, 10), rows_max=50_000, slices_min=2)) == 2


def test_a_quiet_window_is_one_part() -> None:
    assert slice_window(HOUR, [], rows_max=50_000, slices_min=2) == [HOUR]


def test_slots_of_a_tiny_window_are_not_finer_than_a_millisecond() -> None:
    tiny = Window(START, START + timedelta(milliseconds=5))
    assert slot_length(tiny) == timedelta(milliseconds=1)
