"""Decoding one record: every shape that Debezium writes, and what is refused by name."""

import base64
import json
from datetime import UTC, datetime

import pytest
from lockstep.cdc import records
from lockstep.cdc.errors import PoisonedRecordError
from lockstep.cdc.records import MESSAGES
from pizzeria.names import CLIENTS, ORDERS, ORDERS_MESSAGE_PREFIX, OUTBOX

from tests.streams.topics import DECODER

ALL = DECODER.readable
ORDER = {
    "id": 1,
    "table_assignment_id": 2,
    "order_time": "2026-11-21T12:24:54.482530Z",
    "pizzas": [7, 7, 3],
}


def change(table: str, op: str = "c", **fields: object) -> dict:
    return {
        "op": op,
        "source": {"table": table, "ts_us": 17, "txId": 9, "lsn": 5},
        "transaction": {"id": "9:5", "total_order": 3, "data_collection_order": 1},
        "before": None,
        "after": None,
        "ts_us": 20,
        **fields,
    }


def read(value: dict | None, offset: int = 4, wanted: frozenset[str] = ALL) -> records.Record:
    return DECODER.decode(None if value is None else json.dumps(value).encode(), offset, wanted)


def test_an_inserted_order_has_its_row_place_and_times() -> None:
    found = read(change(ORDERS, after=ORDER))
    assert (found.tx, found.total_order, found.table, found.op) == (9, 3, ORDERS, "c")
    assert (found.committed_us, found.captured_us) == (17, 20)
    assert found.row.key == (1,)
    assert found.row.values == (1, 2, datetime(2026, 11, 21, 12, 24, 54, 482530, UTC), [7, 7, 3])


def test_a_delete_has_the_key_of_the_row_as_it_was() -> None:
    row = read(change(ORDERS, "d", before=ORDER)).row
    assert (row.key, row.values) == ((1,), None)


def test_a_truncate_has_no_row() -> None:
    found = read(change(ORDERS, "t"))
    assert (found.op, found.row) == ("t", None)


def test_a_row_of_a_snapshot_has_no_transaction() -> None:
    found = read(change(CLIENTS, "r", after={"id": 5, "name": "Otto"}, transaction=None))
    assert (found.tx, found.row.values) == (None, (5, "Otto"))


def test_a_row_that_is_not_wanted_is_counted_but_not_read() -> None:
    assert read(change(ORDERS, after={"id": "?"}), wanted=frozenset({OUTBOX})).row is None


def outside(prefix: str) -> dict:
    """As Debezium tells of pg_logical_emit_message(false, …)."""
    source = {"table": "", "ts_us": None, "txId": None, "lsn": 5}
    message = {"prefix": prefix, "content": base64.b64encode(b"{}").decode()}
    return change("", "m", source=source, transaction=None, message=message)


def test_a_message_outside_transactions_is_nothing_to_us_unless_it_is_an_orders() -> None:
    assert read(outside("somebody's heartbeat")) == records.Tombstone(4)
    assert read(outside(ORDERS_MESSAGE_PREFIX), wanted=frozenset({ORDERS})) == records.Tombstone(4)
    with pytest.raises(PoisonedRecordError, match="outside its transaction"):
        read(outside(ORDERS_MESSAGE_PREFIX))


def test_a_change_without_its_time_is_refused() -> None:
    source = {"table": ORDERS, "ts_us": None, "txId": 9, "lsn": 5}
    with pytest.raises(PoisonedRecordError, match="without its time"):
        read(change(ORDERS, after=ORDER, source=source))


def test_a_message_counts_as_its_own_table_whatever_its_prefix() -> None:
    content = base64.b64encode(b'{"op":"d","order_id":1}').decode()
    ours = {"prefix": ORDERS_MESSAGE_PREFIX, "content": content}
    message = read(change("", "m", message=ours))
    foreign = read(change("", "m", message={"prefix": "lockstep.cut", "content": "?"}))
    assert (message.table, message.row.key) == (MESSAGES, (1,))
    assert (foreign.table, foreign.row) == (MESSAGES, None)


def test_end_gives_the_commit_lsn_and_counts_with_messages_as_the_rest() -> None:
    end = read(
        {
            "status": "END",
            "id": "771:32713552",
            "event_count": 5,
            "data_collections": [
                {"data_collection": "public.orders", "event_count": 2},
                {"data_collection": "io.debezium.X$LogicalDecodingMessageId@6f", "event_count": 1},
                {"data_collection": "io.debezium.X$LogicalDecodingMessageId@70", "event_count": 2},
            ],
            "ts_ms": 3,
        }
    )
    assert (end.tx, end.commit_lsn, end.committed_us) == (771, 32713552, 3000)
    assert end.counts == {ORDERS: 2, MESSAGES: 3}


def test_other_records_are_distinguished() -> None:
    assert read(None) == records.Tombstone(4)
    assert read({"status": "BEGIN", "id": "7:1"}) == records.Begin(4, 7)
    notice = {"id": "1f", "type": "COMPLETED", "aggregate_type": "Initial Snapshot"}
    assert read(notice) == records.SnapshotNotice(4, "COMPLETED")


def test_an_added_column_passes() -> None:
    assert read(change(CLIENTS, after={"id": 5, "name": "Otto", "vip": True})).row.values == (
        5,
        "Otto",
    )


def test_a_change_of_a_table_that_is_not_known_counts() -> None:
    found = read(change("suppliers", after={"id": 5}))
    assert (found.table, found.row) == ("suppliers", None)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"{", "truncated"),
        (b"\xff\xfe", "malformed"),
        (b"[1]", "Expected `object`"),
        (b"{}", "neither a change"),
        (json.dumps(change(CLIENTS, after={"id": 5, "full_name": "Otto"})).encode(), "`name`"),
        (json.dumps(change(ORDERS, after={**ORDER, "pizzas": "7"})).encode(), "column pizzas"),
        (json.dumps(change(ORDERS, after=None)).encode(), "without its row"),
        (json.dumps(change(ORDERS, "x", after=ORDER)).encode(), "operation 'x'"),
        (json.dumps(change(ORDERS, after=ORDER, transaction=None)).encode(), "without its trans"),
        (json.dumps({"status": "END", "id": "x", "event_count": 1}).encode(), "transaction id"),
    ],
)
def test_what_cannot_be_read_is_refused_with_place_and_reason(value: bytes, reason: str) -> None:
    with pytest.raises(PoisonedRecordError, match=reason) as refused:
        DECODER.decode(value, 1234, ALL)
    assert refused.value.offset == 1234
    assert "1234" in str(refused.value)


def test_a_table_of_another_schema_is_none_of_ours_and_its_changes_are_counted_by_its_name() -> (
    None
):
    source = {"schema": "archive", "table": ORDERS, "ts_us": 17, "txId": 9, "lsn": 5}
    found = read(change(ORDERS, after={"id": 5}, source=source))
    end = read(
        {
            "status": "END",
            "id": "9:90",
            "event_count": 3,
            "data_collections": [
                {"data_collection": "archive.orders", "event_count": 1},
                {"data_collection": "public.orders", "event_count": 2},
            ],
        }
    )
    assert (found.table, found.row) == ("archive.orders", None)
    assert end.counts == {"archive.orders": 1, ORDERS: 2}
