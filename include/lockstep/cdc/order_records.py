"""The pizzeria's rows in the change records: tables, outbox rows and messages, by explicit types.

A row that lacks a field or has one of another type is refused by its decoder. Fields that nothing
asks for pass: a column added to a table changes nothing, one renamed or retyped stops the stream
with its name. An outbox row or a message is what it says of its order; it says so once, when it is
inserted: a pruned outbox says nothing of orders.
"""

import base64
import binascii
from datetime import datetime
from decimal import Decimal
from typing import Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from lockstep.cdc.records import ReadRow, RecordDecoder
from lockstep.pizzeria import (
    CHANGE_TOPIC,
    CLIENTS,
    ORDERS,
    ORDERS_MESSAGE_PREFIX,
    OUTBOX,
    PIZZAS,
    TABLE_ASSIGNMENT,
    TABLES,
)

_CENT, _PRICES_BELOW = Decimal("0.01"), Decimal(10**8)


def _require_price(price: Decimal | None) -> None:
    """Raise ValueError for what decimal(10,2) does not hold: the column has been retyped."""
    if price is None:
        return
    if not price.is_finite() or abs(price) >= _PRICES_BELOW or price % _CENT:
        raise ValueError(f"the price {price} is no decimal(10,2)")


class OrderRow(Struct, frozen=True):
    id: int
    table_assignment_id: int
    order_time: datetime
    pizzas: list[int | None]


class AssignmentRow(Struct, frozen=True):
    id: int
    client_id: int
    table_id: int


class NameRow(Struct, frozen=True):
    """A client, or a table of the dining room."""

    id: int
    name: str


class PizzaRow(Struct, frozen=True):
    id: int
    name: str
    price: Decimal

    def __post_init__(self) -> None:
        _require_price(self.price)


class PricedPizza(Struct, frozen=True):
    pizza: str | None
    price: Decimal | None

    def __post_init__(self) -> None:
        _require_price(self.price)


class PublishedOrder(Struct, frozen=True):
    """What publish_order() says of an order: the whole of it, or only that it is gone (op d).

    An unknown name is null; a field that is not there has been renamed.
    """

    op: Literal["c", "u", "d"]
    order_id: int
    order_time: datetime | UnsetType = UNSET
    client_name: str | UnsetType | None = UNSET
    table_name: str | UnsetType | None = UNSET
    pizzas: list[PricedPizza] | UnsetType | None = UNSET

    def __post_init__(self) -> None:
        if self.op == "d":
            return
        for name in ("order_time", "client_name", "table_name", "pizzas"):
            if getattr(self, name) is UNSET:
                raise ValueError(f"the order lacks the field `{name}`")


class OutboxRow(Struct, frozen=True):
    id: int
    payload: str


Row = OrderRow | AssignmentRow | NameRow | PizzaRow | PublishedOrder

_TEXT_LEFT_OUT = "__debezium_unavailable_value"
_NUMBERS_LEFT_OUT = list(_TEXT_LEFT_OUT.encode())
"""Debezium's placeholders for a large value, text or numbers, that an update did not change."""


def _table_row(table: str, type_: type[Struct]) -> ReadRow:
    """Rows of a table that have this type."""
    decode_row = msgspec.json.Decoder(type_).decode

    def row(_op: str, raw: bytes) -> Struct:
        try:
            found = decode_row(raw)
        except msgspec.DecodeError as error:
            raise ValueError(f"table {table}: {error}") from error
        _require_values(found, table)
        return found

    return row


def _outbox_row(op: str, raw: bytes) -> PublishedOrder | None:
    """What an outbox row says of its order, when it is inserted."""
    if op not in ("c", "r"):
        return None
    try:
        return _PUBLISHED.decode(_outbox(op, raw).payload)
    except msgspec.DecodeError as error:
        raise ValueError(f"table {OUTBOX}: {error}") from error


def _require_values(row: Struct, table: str) -> None:
    """Raise ValueError when the update left a large value out that is read."""
    for value in msgspec.structs.astuple(row):
        if value in (_TEXT_LEFT_OUT, _NUMBERS_LEFT_OUT):
            raise ValueError(
                f"table {table}: the change lacks a large value that it left as it was; "
                f"ALTER TABLE {table} REPLICA IDENTITY FULL, then write the row again"
            )


def _published_by_message(_prefix: str, content: str) -> PublishedOrder:
    try:
        return _PUBLISHED.decode(base64.b64decode(content, validate=True))
    except (msgspec.DecodeError, binascii.Error) as error:
        raise ValueError(f"logical message: {error}") from error


_PUBLISHED = msgspec.json.Decoder(PublishedOrder)
_outbox = _table_row(OUTBOX, OutboxRow)
ORDERS_RECORDS = RecordDecoder(
    CHANGE_TOPIC,
    {
        ORDERS: _table_row(ORDERS, OrderRow),
        TABLE_ASSIGNMENT: _table_row(TABLE_ASSIGNMENT, AssignmentRow),
        CLIENTS: _table_row(CLIENTS, NameRow),
        TABLES: _table_row(TABLES, NameRow),
        PIZZAS: _table_row(PIZZAS, PizzaRow),
        OUTBOX: _outbox_row,
    },
    message_prefix=ORDERS_MESSAGE_PREFIX,
    message=_published_by_message,
)
decode = ORDERS_RECORDS.decode
without_row = ORDERS_RECORDS.without_row
