"""Drivers that die between any two commits of a micro-batch: their successors make it whole.

Real drivers and real services; tests/streams/test_faults.py has every mode and every point.
"""

import os
import random
import time
from collections.abc import Iterator, Sequence
from unittest import mock

import psycopg
import pytest
from lockstep.faults import Point
from lockstep.model.modes import HISTORY, StreamMode
from lockstep.settings import Settings
from lockstep.supervise import launcher, lease
from lockstep.supervise.errors import StreamFailedError
from lockstep_tools.soak.checks import Checks
from pizzeria.names import Login
from pizzeria.shop.moving_pizzas import Movers, open_round

from tests.fault_rounds import MORE_ROUNDS, seeded

pytestmark = [pytest.mark.e2e, pytest.mark.services]

ROUNDS = 2
JOINING = (StreamMode.TEMPORAL, StreamMode.TRANSACTION, HISTORY)
SOON = (Point.BEFORE_CHANGE_LOG, Point.AFTER_CHANGE_LOG, Point.BEFORE_NEXT_RECORDS)
SOON_IN_HISTORY = (Point.BEFORE_HISTORY, Point.AFTER_HISTORY, Point.BEFORE_NEXT_RECORDS)
"""Points that a driver reaches as soon as it works; for the others it would have to run for long,
or to meet a record that Debezium does not write here."""
FAULTS = [
    *((mode, point) for mode in StreamMode for point in SOON),
    *((HISTORY, point) for point in SOON_IN_HISTORY),
    *((mode, Point.WITHIN_LARGE) for mode in JOINING),
]
LARGE_TRANSACTION = """
INSERT INTO clients (id, name) SELECT 1000000000 + number, 'Guest' FROM generate_series(1, 60000)
AS numbers (number) ON CONFLICT (id) DO UPDATE SET name = clients.name || '.'
"""
"""More changes than a driver keeps in memory."""
DEATH_SECONDS_MAX = 120


@pytest.fixture
def stopped_streams(streams_stack: Settings) -> Iterator[Settings]:
    """No driver runs before and after."""
    launcher.stop(streams_stack, list(StreamMode), "the test starts its own")
    yield streams_stack
    launcher.stop(streams_stack, list(StreamMode), "the test is over")


def start_with_fault(settings: Settings, modes: Sequence[StreamMode], fault: str) -> None:
    """Start a driver that dies at this point, maybe before it was seen at work; await its death."""
    with mock.patch.dict(os.environ, LOCKSTEP_FAULT=fault):
        try:
            launcher.start(settings, modes, f"to die at {fault}")
        except StreamFailedError as error:
            assert "ended while it started" in str(error)  # noqa: PT017 - either way is right
    deadline = time.monotonic() + DEATH_SECONDS_MAX
    while any(lease.holder(settings, mode) is not None for mode in modes):
        assert time.monotonic() < deadline, f"never died at {fault}"
        time.sleep(0.1)


def die_at(settings: Settings, mode: str, point: Point) -> None:
    """A driver for the mode, beside the one that all are compared with; without others."""
    launcher.stop(settings, list(StreamMode), "another driver is to die")
    if point is Point.WITHIN_LARGE:
        with psycopg.connect(**settings.connection(Login.SHOP)) as shop:
            shop.execute(LARGE_TRANSACTION)
    others = [mode] if mode in set(StreamMode) - {StreamMode.OUTBOX} else []
    start_with_fault(settings, [StreamMode.OUTBOX, *map(StreamMode, others)], f"{mode}:{point}")


@pytest.fixture
def chosen() -> list[tuple[str, Point]]:
    rng: random.Random = seeded("drivers")
    return [*rng.sample(FAULTS, ROUNDS), *rng.choices(FAULTS, k=MORE_ROUNDS)]


def test_a_driver_that_dies_between_two_commits_leaves_nothing_wrong(
    stopped_streams: Settings, chosen: list[tuple[str, Point]]
) -> None:
    settings = stopped_streams
    checks = Checks.of(settings, StreamMode)
    moved = open_round(settings, 20, seed=3)
    checks.watch(moved.order_ids, moved.pizzas)
    with Movers(settings, moved, rate=20, seed=3):
        for mode, point in chosen:
            print(f"{mode}:{point}")  # noqa: T201 - shown when the test fails
            die_at(settings, mode, point)
        launcher.start(settings, list(StreamMode), "to live")
    assert checks.run() == []
