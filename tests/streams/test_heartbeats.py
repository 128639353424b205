"""What a driver says of how far it is behind."""

from types import SimpleNamespace

import pytest
from lockstep.cdc.transactions import TransactionTracker
from lockstep.contracts import CLIENTS, ORDERS
from lockstep.observe.latency import LatencyWindow
from lockstep.settings import Settings
from lockstep.streams import heartbeats
from lockstep.streams.heartbeats import Beats
from lockstep.streams.runner import Progress
from lockstep.supervise.heartbeat import DriverState, Heartbeat

from tests.cdc.histories import change, end, placed


@pytest.fixture
def tracker() -> TransactionTracker:
    """Of a stream that has written all of the topic so far."""
    wanted = frozenset({ORDERS, CLIENTS})
    one = TransactionTracker(wanted=wanted, frontier=0, next_offset=0, xid_near=1000)
    one.feed(placed([change(7, 1), end(7, 50, orders=1)]))
    return one


def beat(settings: Settings, tracker: TransactionTracker) -> Heartbeat:
    runner = SimpleNamespace(
        tracker=tracker,
        progress=Progress(),
        reached=SimpleNamespace(frontier=tracker.frontier),
        latency=LatencyWindow(),
        state_rows=tracker.held_changes,
        incomplete=tracker.incomplete,
    )
    clock = SimpleNamespace(lsn=60, end_offset=tracker.next_offset)
    return Beats(settings).say("outbox", DriverState.RUNNING, runner, clock)


def test_who_has_written_all_of_the_topic_is_not_behind(
    home: Settings, tracker: TransactionTracker
) -> None:
    assert beat(home, tracker).lag_seconds == 0.0
    tracker.feed(placed([change(8, 1)], start=2))  # of a transaction that is under way
    assert beat(home, tracker).lag_seconds == 0.0


def test_a_beat_that_cannot_be_written_ends_nothing(
    home: Settings, tracker: TransactionTracker, monkeypatch: pytest.MonkeyPatch, caplog
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(heartbeats, "write_heartbeat", full)
    assert beat(home, tracker).state is DriverState.RUNNING
    assert "outbox's heartbeat cannot be written" in caplog.text


def test_who_is_held_back_by_a_transaction_with_changes_missing_falls_behind(
    home: Settings, tracker: TransactionTracker
) -> None:
    tracker.feed(placed([change(8, 1), end(8, 60, orders=2)], start=2))
    found = beat(home, tracker)
    assert found.lag_seconds > 0.0
    assert [one.missing for one in found.incomplete] == [{ORDERS: 1}]
