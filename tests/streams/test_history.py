"""The dimensions' history in Delta: whole, and with a frontier that others can wait for."""

from collections.abc import Callable

import pyarrow.compute as pc
import pytest
from lockstep.cdc.order_records import NameRow
from lockstep.cdc.records import Change, End, RecordDecoder
from lockstep.cdc.transactions import OffsetRange, Transaction
from lockstep.pizzeria import CLIENTS
from lockstep.settings import Settings
from lockstep.streams import temporal
from lockstep.streams.dimensions import history_log, stored_history
from lockstep.streams.temporal import History

from tests.streams.topics import passing

ONE = {CLIENTS: 1}


def transaction(lsn: int, *clients: int) -> Transaction:
    changes = [
        Change(lsn, lsn, place, CLIENTS, "c", NameRow(client, "Ada"), lsn, lsn)
        for place, client in enumerate(clients, start=1)
    ]
    return Transaction(lsn, lsn, lsn, changes, OffsetRange(lsn, lsn), len(clients))


def test_its_frontier_moves_now_and_then_while_no_dimension_changes(tmp_path, clock) -> None:
    settings = Settings(home=tmp_path)
    history = History(settings, history_log(settings), None)
    history.learn([transaction(10, 1)], 11)
    assert stored_history(settings).frontier == 10
    clock[0] += temporal.FRONTIER_SECONDS_MAX - 0.1
    history.learn([transaction(20)], 21)
    assert stored_history(settings).frontier == 10
    clock[0] += 0.1
    history.learn([transaction(30)], 31)
    assert stored_history(settings).frontier == 30
    assert stored_history(settings).resume_offset == 31


def test_its_frontier_never_goes_back_when_transactions_come_again(tmp_path, clock) -> None:
    settings = Settings(home=tmp_path)
    History(settings, history_log(settings), None).learn([transaction(30, 1)], 31)
    again = History(settings, history_log(settings), 10)
    clock[0] += temporal.FRONTIER_SECONDS_MAX
    again.learn([transaction(20)], 41)
    assert stored_history(settings).frontier == 30


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """What the change topic tells: of each transaction its commit LSN and the client it changes."""

    def tell(*told: tuple[int, int]) -> None:
        records = [
            record
            for lsn, client in told
            for record in (*transaction(lsn, client).changes, End(lsn + 1, lsn, lsn, ONE, lsn))
        ]
        read = [(record.offset, record) for record in records]
        monkeypatch.setattr(temporal.change_topic, "end_offset", lambda _: read[-1][0] + 1)
        monkeypatch.setattr(
            temporal.change_topic,
            "read_again",
            lambda _, first, end: [[one for one in read if first <= one[0] < end]],
        )

    monkeypatch.setattr(RecordDecoder, "decode", lambda _self, value, *_: value)
    return tell


def test_what_another_query_writes_while_the_history_is_loaded_is_not_missed(
    tmp_path, topic
) -> None:
    settings = Settings(home=tmp_path)
    writing = History(settings, history_log(settings), None)
    writing.learn([transaction(10, 1)], 11)
    loaded = History(settings, None, 30)
    writing.learn([transaction(20, 2), transaction(30, 3)], 31)
    topic((20, 2), (30, 3))
    loaded.catch_up(30, passing())
    assert loaded.cached.relation(CLIENTS, [1, 2, 3])["id"].to_pylist() == [1, 2, 3]


def test_catching_up_ends_at_the_streams_own_frontier(tmp_path, topic) -> None:
    """Its next orders need the versions of then, although newer ones are in the topic."""
    settings = Settings(home=tmp_path)
    History(settings, history_log(settings), None).learn([transaction(10, 1)], 11)
    loaded = History(settings, None, 30)
    topic((20, 2), (30, 3), (40, 2), (50, 2), (60, 2))
    loaded.catch_up(30, passing())
    loaded.learn([transaction(40, 2)], 41)
    kept = loaded.cached.relation(CLIENTS, [2])
    assert kept.filter(pc.field("id") == 2)["valid_from"].to_pylist() == [20, 40]


def test_a_crash_while_it_catches_up_loses_no_transaction_that_was_read_with_the_written(
    tmp_path, topic, monkeypatch
) -> None:
    settings = Settings(home=tmp_path)
    History(settings, history_log(settings), None).learn([transaction(10, 1)], 11)
    topic((20, 2), (30, 3))
    log = history_log(settings)
    append = log.append

    def append_the_first(*given: object) -> None:
        append(*given)
        raise InterruptedError("the process ends here")

    monkeypatch.setattr(log, "append", append_the_first)
    with pytest.raises(InterruptedError):
        History(settings, log, 30).catch_up(30, passing())
    assert stored_history(settings).frontier == 20
    History(settings, history_log(settings), 30).catch_up(30, passing())
    assert stored_history(settings).frontier == 30
    loaded = History(settings, None, 30)
    assert loaded.cached.relation(CLIENTS, [1, 2, 3])["id"].to_pylist() == [1, 2, 3]
