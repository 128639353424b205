"""What a driver says of how far it is behind."""

import json
import os
from datetime import datetime
from types import SimpleNamespace

import pytest
from lockstep.cdc.records import End
from lockstep.cdc.transactions import TransactionTracker
from lockstep.model.modes import StreamMode
from lockstep.observe.latency import LatencyWindow
from lockstep.settings import Settings
from lockstep.sources.errors import PostgresUnavailableError
from lockstep.streams import heartbeats
from lockstep.streams.heartbeats import Beats, DatabaseClock
from lockstep.streams.runner import Position
from lockstep.streams.writer import Progress
from lockstep.supervise.heartbeat import DriverState, Heartbeat
from pizzeria.names import CLIENTS, ORDERS, OUTBOX

from tests.cdc.histories import change, end, placed
from tests.streams.topics import ReadHere


@pytest.fixture
def tracker() -> TransactionTracker:
    """Of a stream that has written all of the topic so far."""
    wanted = frozenset({ORDERS, CLIENTS})
    one = TransactionTracker(wanted=wanted, frontier=0, next_offset=0, xid_near=1000)
    one.feed(placed([change(7, 1), end(7, 50, orders=1)]))
    return one


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What the driver's clock shows, in seconds since 1970: its one element."""
    shows = [100.0]
    clock = SimpleNamespace(
        now=lambda zone: datetime.fromtimestamp(shows[0], zone),
        fromtimestamp=datetime.fromtimestamp,
    )
    monkeypatch.setattr(heartbeats, "datetime", clock)
    return shows


def beat(
    settings: Settings,
    tracker: TransactionTracker,
    beats: Beats | None = None,
    rows_total: int = 0,
) -> Heartbeat:
    runner = SimpleNamespace(
        position=Position(tracker.next_offset, tracker.frontier, tracker.frontier_committed_us),
        progress=Progress(rows_total=rows_total),
        reached=SimpleNamespace(frontier=tracker.frontier),
        latency=LatencyWindow(),
        state_rows=tracker.held_changes,
        incomplete=tracker.incomplete,
    )
    clock = SimpleNamespace(lsn=60, end_offset=tracker.next_offset)
    return (beats or Beats(settings)).say("outbox", DriverState.RUNNING, runner, clock)


def test_who_has_written_all_of_the_topic_is_not_behind(
    home: Settings, tracker: TransactionTracker
) -> None:
    assert beat(home, tracker).lag_seconds == 0.0
    tracker.feed(placed([change(8, 1)], start=2))  # of a transaction that is under way
    assert beat(home, tracker).lag_seconds == 0.0


def test_a_beat_says_what_the_driver_holds_and_looks_now_and_then(
    home: Settings, tracker: TransactionTracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, passed = [2**30], [0.0]
    monkeypatch.setattr(heartbeats, "resident_bytes", lambda pid: held[0] * (pid == os.getpid()))
    monkeypatch.setattr(heartbeats.time, "monotonic", lambda: passed[0])
    beats = Beats(home)
    assert beat(home, tracker, beats).driver_memory_bytes == 2**30
    held[0], passed[0] = 2**31, heartbeats.MEMORY_SECONDS - 0.1
    assert beat(home, tracker, beats).driver_memory_bytes == 2**30
    passed[0] += 0.1
    assert beat(home, tracker, beats).driver_memory_bytes == 2**31


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


def test_the_distance_is_what_the_database_and_the_topic_have_more_than_the_table(
    home: Settings, tracker: TransactionTracker, now: list[float]
) -> None:
    counted = End(0, 8, 60, {ORDERS: 2}, committed_us=30_000_000)
    tracker.feed(placed([change(8, 1), counted], start=2))
    found = beat(home, tracker)
    assert (found.frontier, found.lag_bytes) == (50, 10)
    assert (found.next_offset, found.end_offset) == (4, 4)
    (incomplete,) = found.incomplete
    assert (incomplete.tx_id, incomplete.changes_seen, incomplete.changes_expected) == (8, 1, 2)
    assert incomplete.age_seconds == pytest.approx(now[0] - 30)


def test_the_rate_is_that_of_the_rows_since_the_beat_before(
    home: Settings, tracker: TransactionTracker, now: list[float]
) -> None:
    beats = Beats(home)
    rates = []
    for rows_total in (500, 530, 530, 630):
        rates.append(beat(home, tracker, beats, rows_total).rows_per_second)
        now[0] += 2
    assert rates == [0.0, 15.0, 0.0, 50.0]


def test_rows_that_a_runner_has_written_are_reported_with_their_latency(home: Settings) -> None:
    one = ReadHere(None, home, StreamMode.OUTBOX)
    rows = []
    for tx in (7, 8):
        one.take(published_twice(tx, is_first=tx == 7))
        found = Beats(home).say("outbox", DriverState.RUNNING, one.runner)
        rows.append(found.rows_total)
    assert rows == [2, 4]
    assert found.latency.p50 > 0.0


def published_twice(tx: int, *, is_first: bool) -> list[bytes]:
    """Two orders published in one transaction; before the first one, an empty snapshot."""
    snapshot = [{"type": "STARTED"}, {"type": "COMPLETED"}] if is_first else []
    orders = [
        {
            "op": "c",
            "source": {"table": OUTBOX, "ts_us": 17, "txId": tx},
            "transaction": {"total_order": number},
            "after": {"id": number, "payload": json.dumps({"op": "d", "order_id": number})},
            "ts_us": 20,
        }
        for number in (1, 2)
    ]
    collections = [{"data_collection": f"public.{OUTBOX}", "event_count": 2}]
    ended = {"status": "END", "id": f"{tx}:{tx * 10}", "event_count": 2}
    records = [*snapshot, *orders, {**ended, "data_collections": collections}]
    return [json.dumps(record).encode() for record in records]


@pytest.mark.parametrize("error", [PostgresUnavailableError("no answer"), ValueError("a surprise")])
def test_a_position_that_cannot_be_asked_for_is_unknown_and_the_other_is_known(
    home: Settings, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(heartbeats, "capturer", fail)
    monkeypatch.setattr(heartbeats.ChangeTopicEnd, "offset", lambda _: 7)
    clock = DatabaseClock(home)
    clock.read()
    assert (clock.lsn, clock.end_offset) == (None, 7)
