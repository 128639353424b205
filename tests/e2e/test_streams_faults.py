"""A driver that dies between any two commits of a micro-batch: its successor makes it whole."""

import os
import time
from collections.abc import Iterator
from unittest import mock

import pytest
from lockstep.contracts import StreamMode
from lockstep.errors import StreamFailedError
from lockstep.settings import Settings
from lockstep.shop.moving_pizzas import Movers, open_round
from lockstep.soak.checks import Checks
from lockstep.supervise import launcher, lease

pytestmark = [pytest.mark.e2e, pytest.mark.services]

MODES = (StreamMode.OUTBOX, StreamMode.TEMPORAL)
POINTS = ("before_dimensions", "after_dimensions", "after_change_log", "before_spark_commit")
DEATH_SECONDS_MAX = 60


@pytest.fixture
def stopped_streams(streams_stack: Settings) -> Iterator[Settings]:
    """No driver runs before and after."""
    launcher.stop(streams_stack, list(StreamMode), "the test starts its own")
    yield streams_stack
    launcher.stop(streams_stack, list(StreamMode), "the test is over")


def start_with_fault(settings: Settings, fault: str) -> None:
    """Start a driver that dies at this point, maybe before it was seen at work; await its death."""
    with mock.patch.dict(os.environ, LOCKSTEP_FAULT=fault):
        try:
            launcher.start(settings, MODES, f"to die at {fault}")
        except StreamFailedError as error:
            assert "ended while it started" in str(error)  # noqa: PT017 - either way is right
    deadline = time.monotonic() + DEATH_SECONDS_MAX
    while lease.holder(settings, MODES[1]) is not None:
        assert time.monotonic() < deadline, f"never died at {fault}"
        time.sleep(0.1)


def test_a_driver_that_dies_between_two_commits_leaves_nothing_wrong(
    stopped_streams: Settings,
) -> None:
    settings = stopped_streams
    checks = Checks.of(settings, MODES)
    moved = open_round(settings, 20, seed=3)
    checks.watch(moved.order_ids, moved.pizzas)
    with Movers(settings, moved, rate=30, seed=3):
        for point in POINTS:
            start_with_fault(settings, f"{StreamMode.TEMPORAL}:{point}")
        launcher.start(settings, MODES, "to live")
    assert checks.run() == []
