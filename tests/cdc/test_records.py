"""Decoding one record: every shape that Debezium writes, and what is refused by name."""

import base64
import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from lockstep.cdc import records
from lockstep.cdc.order_records import ORDERS_RECORDS, decode
from lockstep.cdc.records import MESSAGES
from lockstep.errors import PoisonedRecordError
from lockstep.pizzeria import (
    CAPTURED_TABLES,
    CLIENTS,
    ORDERS,
    ORDERS_MESSAGE_PREFIX,
    OUTBOX,
    PIZZAS,
)

ALL = frozenset({*CAPTURED_TABLES, MESSAGES})
ORDER = {
    "id": 1,
    "table_assignment_id": 2,
    "order_time": "2026-11-21T12:24:54.482530Z",
    "pizzas": [7, 7, 3],
}
PAYLOAD = {
    "op": "c",
    "order_id": 1,
    "order_time": "2026-11-21T12:24:54.482530Z",
    "client_name": "Anna",
    "table_name": None,
    "pizzas": [{"pizza": "Verdure (S)", "price": 9.70}, {"pizza": None, "price": None}],
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
    return decode(None if value is None else json.dumps(value).encode(), offset, wanted)


def test_an_inserted_order_has_its_row_place_and_times() -> None:
    found = read(change(ORDERS, after=ORDER))
    assert (found.tx, found.total_order, found.table, found.op) == (9, 3, ORDERS, "c")
    assert (found.committed_us, found.captured_us) == (17, 20)
    assert found.row.pizzas == [7, 7, 3]
    assert found.row.order_time == datetime(2026, 11, 21, 12, 24, 54, 482530, UTC)


def test_a_delete_carries_the_row_as_it_was() -> None:
    assert read(change(ORDERS, "d", before=ORDER)).row.id == 1


def test_a_truncate_has_no_row() -> None:
    found = read(change(ORDERS, "t"))
    assert (found.op, found.row) == ("t", None)


def test_a_row_of_a_snapshot_has_no_transaction() -> None:
    found = read(change(CLIENTS, "r", after={"id": 5, "name": "Otto"}, transaction=None))
    assert (found.tx, found.row.name) == (None, "Otto")


def test_a_row_nobody_wants_is_counted_but_not_read() -> None:
    assert read(change(ORDERS, after={"id": "?"}), wanted=frozenset({OUTBOX})).row is None


def test_an_outbox_row_is_what_it_says_of_its_order() -> None:
    row = {"id": 8, "order_id": 1, "op": "c", "payload": json.dumps(PAYLOAD)}
    found = read(change(OUTBOX, after=row)).row
    assert found.order_id == 1
    assert found.pizzas[0].price == Decimal("9.7")
    assert found.pizzas[1].pizza is None


def test_an_outbox_row_of_a_snapshot_is_what_it_says_of_its_order() -> None:
    row = {"id": 8, "order_id": 1, "op": "u", "payload": json.dumps({**PAYLOAD, "op": "u"})}
    found = read(change(OUTBOX, "r", after=row, transaction=None))
    assert (found.tx, found.row.order_id, found.row.op) == (None, 1, "u")


def published(payload: dict) -> list[dict]:
    """The payload as an outbox row, and as a logical message."""
    text = json.dumps(payload)
    message = {
        "prefix": ORDERS_MESSAGE_PREFIX,
        "content": base64.b64encode(text.encode()).decode(),
    }
    return [change(OUTBOX, after={"id": 8, "payload": text}), change("", "m", message=message)]


@pytest.mark.parametrize("op", ["c", "u"])
@pytest.mark.parametrize("field", ["order_time", "client_name", "table_name", "pizzas"])
def test_a_published_order_that_lacks_a_field_is_refused_by_its_name(op: str, field: str) -> None:
    payload = {**PAYLOAD, "op": op}
    payload[f"{field}_renamed"] = payload.pop(field)
    for record in published(payload):
        with pytest.raises(PoisonedRecordError, match=f"lacks the field `{field}`"):
            read(record)


def test_a_published_order_that_is_gone_has_its_id_alone() -> None:
    for record in published({"op": "d", "order_id": 1}):
        row = read(record).row
        assert (row.op, row.order_id) == ("d", 1)


@pytest.mark.parametrize(
    "event",
    [
        {"op": "d", "before": {"id": 8, "order_id": None, "op": None, "payload": None}},
        {"op": "d", "before": {"id": 8, "order_id": 1, "op": "c", "payload": json.dumps(PAYLOAD)}},
        {"op": "u", "after": {"id": 8, "order_id": 1, "op": "c", "payload": json.dumps(PAYLOAD)}},
    ],
)
def test_who_prunes_the_outbox_counts_and_tells_nothing_of_orders(event: dict) -> None:
    found = read(change(OUTBOX, **event))
    assert (found.table, found.total_order, found.row) == (OUTBOX, 3, None)


@pytest.mark.parametrize("price", ["9.505", "123456789.00", "1e27", "NaN", "Infinity"])
def test_a_price_that_the_tables_do_not_hold_is_refused(price: str) -> None:
    pizza = {"id": 1, "name": "Verdure (S)", "price": price}
    with pytest.raises(PoisonedRecordError, match=r"table pizzas: the price .* no decimal\(10,2\)"):
        read(change(PIZZAS, after=pizza))
    payload = json.dumps({**PAYLOAD, "pizzas": [{"pizza": "Verdure (S)", "price": price}]})
    with pytest.raises(PoisonedRecordError, match=r"table orders_outbox: the price"):
        read(change(OUTBOX, after={"id": 8, "payload": payload}))


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
    _, message = map(read, published(PAYLOAD))
    foreign = read(change("", "m", message={"prefix": "lockstep.cut", "content": "?"}))
    assert (message.table, message.row.client_name) == (MESSAGES, "Anna")
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


def test_other_records_are_told_apart() -> None:
    assert read(None) == records.Tombstone(4)
    assert read({"status": "BEGIN", "id": "7:1"}) == records.Begin(4, 7)
    notice = {"id": "1f", "type": "COMPLETED", "aggregate_type": "Initial Snapshot"}
    assert read(notice) == records.SnapshotNotice(4, "COMPLETED")


def test_an_added_column_passes() -> None:
    assert read(change(CLIENTS, after={"id": 5, "name": "Otto", "vip": True})).row.name == "Otto"


def test_a_table_nobody_knows_is_a_change_that_counts() -> None:
    found = read(change("suppliers", after={"id": 5}))
    assert (found.table, found.row) == ("suppliers", None)
    assert not ORDERS_RECORDS.is_known(found.table)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"{", "truncated"),
        (b"\xff\xfe", "malformed"),
        (b"[1]", "Expected `object`"),
        (b"{}", "neither a change"),
        (json.dumps(change(CLIENTS, after={"id": 5, "full_name": "Otto"})).encode(), "`name`"),
        (json.dumps(change(ORDERS, after={**ORDER, "pizzas": "7"})).encode(), r"\$.pizzas"),
        (
            json.dumps(change(PIZZAS, after={"id": 1, "name": "x", "price": "nan?"})).encode(),
            "price",
        ),
        (json.dumps(change(ORDERS, after=None)).encode(), "without its row"),
        (json.dumps(change(ORDERS, "x", after=ORDER)).encode(), "operation 'x'"),
        (json.dumps(change(ORDERS, after=ORDER, transaction=None)).encode(), "without its trans"),
        (json.dumps(change(OUTBOX, after={"id": 1, "payload": "{"})).encode(), "orders_outbox"),
        (json.dumps({"status": "END", "id": "x", "event_count": 1}).encode(), "transaction id"),
    ],
)
def test_what_cannot_be_read_is_refused_with_place_and_reason(value: bytes, reason: str) -> None:
    with pytest.raises(PoisonedRecordError, match=reason) as refused:
        decode(value, 1234, ALL)
    assert refused.value.offset == 1234
    assert "1234" in str(refused.value)


@pytest.mark.parametrize(
    ("table", "row"),
    [
        (CLIENTS, {"id": 1, "name": "__debezium_unavailable_value"}),
        (ORDERS, {**ORDER, "pizzas": list(b"__debezium_unavailable_value")}),
    ],
)
def test_a_large_value_that_an_update_leaves_out_is_refused(table: str, row: dict) -> None:
    value = json.dumps(change(table, "u", after=row), separators=(",", ":")).encode()
    with pytest.raises(PoisonedRecordError, match=f"ALTER TABLE {table} REPLICA IDENTITY FULL"):
        decode(value, 4, ALL)


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
