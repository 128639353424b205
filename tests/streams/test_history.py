"""The dimensions' history in Delta: whole, and with a frontier that others can wait for."""

from lockstep.cdc.records import Change, End, NameRow
from lockstep.cdc.transactions import OffsetRange, Transaction
from lockstep.contracts import CLIENTS
from lockstep.settings import Settings
from lockstep.streams import temporal
from lockstep.streams.dimensions import history_log, stored_history
from lockstep.streams.temporal import History

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


def test_what_another_query_writes_while_the_history_is_loaded_is_not_missed(
    tmp_path, monkeypatch
) -> None:
    settings = Settings(home=tmp_path)
    writing = History(settings, history_log(settings), None)
    writing.learn([transaction(10, 1)], 11)
    loaded = History(settings, None, 30)
    writing.learn([transaction(20, 2), transaction(30, 3)], 31)
    topic = [
        record
        for lsn in (20, 30)
        for record in (*transaction(lsn, lsn // 10).changes, End(lsn + 1, lsn, lsn, ONE, lsn))
    ]
    read = [(record.offset, record) for record in topic]
    monkeypatch.setattr(temporal, "decode", lambda value, *_: value)
    monkeypatch.setattr(temporal.change_topic, "end_offset", lambda _: 32)
    monkeypatch.setattr(temporal.change_topic, "read_again", lambda *_: [read])
    loaded.catch_up(30, frozenset())
    assert loaded.cached.relation(CLIENTS, {1, 2, 3})["id"].to_pylist() == [1, 2, 3]
