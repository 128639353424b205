"""Rows of a fact, and what was published of them, out of the change topic; refused by name."""

import base64
import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from lockstep.cdc.errors import PoisonedRecordError
from lockstep.cdc.records import MESSAGES, Change
from lockstep.streams.table_rows import TableRow
from pizzeria.names import CLIENTS, ORDERS, ORDERS_MESSAGE_PREFIX, OUTBOX, PIZZAS

from tests.streams.topics import DECODER

PAYLOAD = {
    "op": "c",
    "order_id": 1,
    "order_time": "2026-11-21T12:24:54.482530Z",
    "client_name": "Anna",
    "table_name": None,
    "pizzas": [{"pizza": "Verdure (S)", "price": 9.70}, {"pizza": None, "price": None}],
}
AT = datetime(2026, 11, 21, 12, 24, 54, 482530, UTC)
PUBLISHED = TableRow(
    (1,), (AT, "Anna", None, [("Verdure (S)", Decimal("9.70")), (None, None)]), op="c"
)


def change(table: str, op: str = "c", **fields: object) -> dict:
    return {
        "op": op,
        "source": {"table": table, "ts_us": 17, "txId": 9, "lsn": 5},
        "transaction": {"id": "9:5", "total_order": 3, "data_collection_order": 1},
        "ts_us": 20,
        **fields,
    }


def read(value: dict) -> Change:
    return DECODER.decode(json.dumps(value).encode(), 4, DECODER.readable)


def published(payload: dict) -> list[dict]:
    """The payload as an outbox row, and as a logical message."""
    text = json.dumps(payload)
    content = base64.b64encode(text.encode()).decode()
    message = {"prefix": ORDERS_MESSAGE_PREFIX, "content": content}
    return [change(OUTBOX, after={"id": 8, "payload": text}), change("", "m", message=message)]


def test_what_is_published_is_read_of_an_outbox_row_and_of_a_message() -> None:
    assert [read(record).row for record in published(PAYLOAD)] == [PUBLISHED, PUBLISHED]
    assert [read(record).table for record in published(PAYLOAD)] == [OUTBOX, MESSAGES]


def test_an_outbox_row_of_a_snapshot_is_what_it_says_of_its_row() -> None:
    row = {"id": 8, "order_id": 1, "op": "u", "payload": json.dumps({**PAYLOAD, "op": "u"})}
    found = read(change(OUTBOX, "r", after=row, transaction=None))
    assert (found.tx, found.row.key, found.row.op) == (None, (1,), "u")


@pytest.mark.parametrize("op", ["c", "u"])
@pytest.mark.parametrize("field", ["order_time", "client_name", "table_name", "pizzas"])
def test_a_published_row_that_lacks_a_field_is_refused_by_its_name(op: str, field: str) -> None:
    payload = {**PAYLOAD, "op": op}
    payload[f"{field}_renamed"] = payload.pop(field)
    for record in published(payload):
        with pytest.raises(PoisonedRecordError, match=f"missing required field `{field}`"):
            read(record)


def test_a_published_row_that_is_gone_has_its_key_alone() -> None:
    for record in published({"op": "d", "order_id": 1}):
        assert read(record).row == TableRow((1,), None, op="d")


@pytest.mark.parametrize(
    "event",
    [
        {"op": "d", "before": {"id": 8, "order_id": None, "op": None, "payload": None}},
        {"op": "d", "before": {"id": 8, "order_id": 1, "op": "c", "payload": json.dumps(PAYLOAD)}},
        {"op": "u", "after": {"id": 8, "order_id": 1, "op": "c", "payload": json.dumps(PAYLOAD)}},
    ],
)
def test_who_prunes_the_outbox_counts_and_says_nothing_of_rows(event: dict) -> None:
    found = read(change(OUTBOX, **event))
    assert (found.table, found.total_order, found.row) == (OUTBOX, 3, None)


@pytest.mark.parametrize("price", ["9.505", "123456789.00", "1e27", "NaN", "Infinity"])
def test_a_price_that_the_tables_do_not_hold_is_refused(price: str) -> None:
    pizza = {"id": 1, "name": "Verdure (S)", "price": price}
    with pytest.raises(PoisonedRecordError, match=r"table public.pizzas, column price: .* is no n"):
        read(change(PIZZAS, after=pizza))
    outbox, message = published({**PAYLOAD, "pizzas": [{"pizza": "Verdure", "price": price}]})
    where = "field `pizzas`: field `price`: .* is no n"
    with pytest.raises(PoisonedRecordError, match=f"table {OUTBOX}: {where}"):
        read(outbox)
    with pytest.raises(PoisonedRecordError, match=f"logical message: {where}"):
        read(message)


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (change(OUTBOX, after={"id": 1, "payload": "{"}), f"table {OUTBOX}"),
        (change(OUTBOX, after={"id": 1, "renamed": "{}"}), f"table {OUTBOX}.*`payload`"),
        (change("", "m", message={"prefix": ORDERS_MESSAGE_PREFIX, "content": "?"}), "message"),
        (change(CLIENTS, after={"id": 5, "full_name": "Otto"}), "`name`"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_reason(record: dict, reason: str) -> None:
    with pytest.raises(PoisonedRecordError, match=reason):
        read(record)


def test_a_large_value_that_an_update_leaves_out_of_the_fact_is_refused() -> None:
    left_out = list(b"__debezium_unavailable_value")
    row = {"id": 1, "table_assignment_id": 2, "order_time": AT.isoformat(), "pizzas": left_out}
    value = json.dumps(change(ORDERS, "u", after=row), separators=(",", ":")).encode()
    with pytest.raises(PoisonedRecordError, match=f"ALTER TABLE {ORDERS} REPLICA IDENTITY FULL"):
        DECODER.decode(value, 4, {ORDERS})
