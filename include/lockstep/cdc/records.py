"""One record of the change topic, decoded against explicit types.

The shapes are Debezium 3.6's PostgreSQL events in JSON without schemas: a change of a table, a
logical decoding message, a transaction's BEGIN and END, a notification of the connector, and the
tombstone after a delete. A record that has none of these shapes, or a row that lacks a field or has
one of another type, is a PoisonedRecordError. Fields that nobody asks for pass: a column added to a
table changes nothing, one renamed or retyped stops the stream with its name.
"""

import base64
import binascii
from collections.abc import Collection
from datetime import datetime
from decimal import Decimal
from typing import Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from lockstep.contracts import (
    CAPTURED_TABLES,
    CHANGE_TOPIC,
    CLIENTS,
    ORDERS,
    ORDERS_MESSAGE_PREFIX,
    OUTBOX,
    PIZZAS,
    TABLE_ASSIGNMENT,
    TABLES,
)
from lockstep.errors import PoisonedRecordError

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

    A name that nobody knows is null; a field that is not there has been renamed.
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

MESSAGES = "messages"
"""Stands for the table of a logical message where changes are counted or asked for by table."""


class Change(Struct, frozen=True, gc=False):
    """A change of one row, or a logical message, at its place in a transaction.

    tx: the transaction's id as the event has it, 32 bits; None for a row of a snapshot.
    table: of contracts.CAPTURED_TABLES, MESSAGES, or a name that no mode knows.
    op: c, u, d, t (TRUNCATE, which has no row), m, or r (a row of a snapshot).
    row: the row as it is after the change, or before it for a delete; None where it was not
        asked for, or there is none. An outbox row or a message is what it says of its order; it
        says so once, when it is inserted: who prunes the outbox tells nothing of orders.
    committed_us, captured_us: microseconds since the epoch; the commit by the database's clock,
        the reading by Debezium's.
    """

    offset: int
    tx: int | None
    total_order: int
    table: str
    op: str
    row: Row | None
    committed_us: int
    captured_us: int


class Begin(Struct, frozen=True):
    offset: int
    tx: int


class End(Struct, frozen=True):
    """A transaction's last record. commit_lsn orders transactions; counts are by table."""

    offset: int
    tx: int
    commit_lsn: int
    counts: dict[str, int]
    committed_us: int


class SnapshotNotice(Struct, frozen=True):
    """A notification of the connector's initial snapshot: STARTED, COMPLETED, ABORTED, …"""

    offset: int
    kind: str


class Tombstone(Struct, frozen=True):
    offset: int


class Skipped(Struct, frozen=True):
    """A record that cannot be read and is given up by an operator.

    change: what it still says, without its row; None when nothing of it can be read.
    """

    offset: int
    change: Change | None

    @property
    def tx(self) -> int | None:
        return None if self.change is None else self.change.tx


Record = Change | Begin | End | SnapshotNotice | Tombstone | Skipped


class _Source(Struct):
    table: str
    ts_us: int | None = None
    tx: int | None = msgspec.field(name="txId", default=None)


class _Place(Struct):
    total_order: int


class _Message(Struct):
    prefix: str
    content: str


class _Count(Struct):
    data_collection: str
    event_count: int


class _Envelope(Struct):
    """All fields of all shapes: one pass over the bytes says which one it is."""

    op: str | None = None
    source: _Source | None = None
    transaction: _Place | None = None
    before: Raw = Raw(b"null")
    after: Raw = Raw(b"null")
    message: _Message | None = None
    ts_ms: int | None = None
    ts_us: int | None = None
    status: str | None = None
    id: str | None = None
    event_count: int | None = None
    data_collections: list[_Count] | None = None
    type: str | None = None
    aggregate_type: str | None = None


_ENVELOPE = msgspec.json.Decoder(_Envelope)
_ROWS: dict[str, msgspec.json.Decoder] = {
    ORDERS: msgspec.json.Decoder(OrderRow),
    TABLE_ASSIGNMENT: msgspec.json.Decoder(AssignmentRow),
    CLIENTS: msgspec.json.Decoder(NameRow),
    TABLES: msgspec.json.Decoder(NameRow),
    PIZZAS: msgspec.json.Decoder(PizzaRow),
    OUTBOX: msgspec.json.Decoder(OutboxRow),
}
_PUBLISHED = msgspec.json.Decoder(PublishedOrder)
_NOTHING = b"null"
_TEXT_LEFT_OUT = "__debezium_unavailable_value"
_NUMBERS_LEFT_OUT = list(_TEXT_LEFT_OUT.encode())
"""Debezium's placeholders for a large value, text or numbers, that an update did not change."""
_SCHEMA = "public."
_OPS = frozenset("cudtr")


def decode(value: bytes | None, offset: int, wanted: Collection[str]) -> Record:
    """The record at an offset of the change topic; rows only of the `wanted` tables.

    Raises PoisonedRecordError with topic, partition, offset and reason when it cannot be read.
    """
    if value is None:
        return Tombstone(offset)
    try:
        envelope = _ENVELOPE.decode(value)
        if envelope.op is not None:
            return _change(envelope, offset, wanted)
        if envelope.status is not None:
            return _boundary(envelope, offset)
        if envelope.type is not None:
            return SnapshotNotice(offset, envelope.type)
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
        raise PoisonedRecordError(CHANGE_TOPIC, 0, offset, str(error)) from error
    raise PoisonedRecordError(
        CHANGE_TOPIC, 0, offset, "neither a change nor a transaction's record nor a notification"
    )


def without_row(value: bytes | None, offset: int) -> Skipped | Tombstone:
    """What a record says that `decode` cannot read: a Tombstone when it is of no transaction."""
    try:
        record = decode(value, offset, ())
    except PoisonedRecordError:
        return Skipped(offset, None)
    return Skipped(offset, record) if isinstance(record, Change) else Tombstone(offset)


def _change(envelope: _Envelope, offset: int, wanted: Collection[str]) -> Change | Tombstone:
    source, op = envelope.source, envelope.op
    if source is None:
        raise ValueError("a change without `source`")
    table = MESSAGES if op == "m" else source.table
    if op == "m" and source.tx is None:
        return _outside_transactions(envelope.message, offset, wanted)
    if source.ts_us is None:
        raise ValueError("a change without its time, `source.ts_us`")
    if op != "m" and op not in _OPS:
        raise ValueError(f"operation {op!r} is none of c, u, d, t, r, m")
    if op != "r" and (source.tx is None or envelope.transaction is None):
        raise ValueError("a change without its transaction; provide.transaction.metadata is off")
    return Change(
        offset=offset,
        tx=None if op == "r" else source.tx,
        total_order=offset if op == "r" else envelope.transaction.total_order,
        table=table,
        op=op,
        row=_row(envelope, table) if table in wanted else None,
        committed_us=source.ts_us,
        captured_us=envelope.ts_us or (envelope.ts_ms or 0) * 1000,
    )


def _row(envelope: _Envelope, table: str) -> Row | None:
    if table == MESSAGES:
        return _published_by_message(envelope.message)
    if envelope.op == "t" or (table == OUTBOX and envelope.op not in ("c", "r")):
        return None
    raw = bytes(envelope.before if envelope.op == "d" else envelope.after)
    if raw == _NOTHING:
        raise ValueError(f"a change ({envelope.op}) of {table} without its row")
    try:
        row = _ROWS[table].decode(raw)
        _require_values(row, table)
        return _PUBLISHED.decode(row.payload) if table == OUTBOX else row
    except msgspec.DecodeError as error:
        raise ValueError(f"table {table}: {error}") from error


def _require_values(row: Struct, table: str) -> None:
    """Raise ValueError when the update left a large value out that is read."""
    for value in msgspec.structs.astuple(row):
        if value in (_TEXT_LEFT_OUT, _NUMBERS_LEFT_OUT):
            raise ValueError(
                f"table {table}: the change lacks a large value that it left as it was; "
                f"ALTER TABLE {table} REPLICA IDENTITY FULL, then write the row again"
            )


def _published_by_message(message: _Message | None) -> PublishedOrder | None:
    """What a message with the orders' prefix says; those of other prefixes are nothing to us."""
    if message is None:
        raise ValueError("a logical message without `message`")
    if message.prefix != ORDERS_MESSAGE_PREFIX:
        return None
    try:
        return _PUBLISHED.decode(base64.b64decode(message.content, validate=True))
    except (msgspec.DecodeError, binascii.Error) as error:
        raise ValueError(f"logical message: {error}") from error


def _outside_transactions(
    message: _Message | None, offset: int, wanted: Collection[str]
) -> Tombstone:
    """pg_logical_emit_message(false, …) belongs to no transaction, as others' heartbeats do."""
    is_orders = message is not None and message.prefix == ORDERS_MESSAGE_PREFIX
    if is_orders and MESSAGES in wanted:
        raise ValueError("an order's message outside its transaction: emit it with `true`")
    return Tombstone(offset)


def _boundary(envelope: _Envelope, offset: int) -> Begin | End:
    tx, _, lsn = (envelope.id or "").partition(":")
    if not (tx.isdigit() and lsn.isdigit()):
        raise ValueError(f"transaction id {envelope.id!r} is not `txId:LSN`")
    if envelope.status == "BEGIN":
        return Begin(offset, int(tx))
    if envelope.status != "END" or envelope.event_count is None:
        raise ValueError(f"transaction status {envelope.status!r} with no count of events")
    return End(
        offset=offset,
        tx=int(tx),
        commit_lsn=int(lsn),
        counts=_counts(envelope.event_count, envelope.data_collections or []),
        committed_us=(envelope.ts_ms or 0) * 1000,
    )


def _counts(events: int, collections: list[_Count]) -> dict[str, int]:
    """Changes by table. A message's collection is a Java object's text: messages are the rest."""
    counts: dict[str, int] = {}
    for collection in collections:
        if collection.data_collection.startswith(_SCHEMA):
            counts[collection.data_collection.removeprefix(_SCHEMA)] = collection.event_count
    messages = events - sum(counts.values())
    return {**counts, MESSAGES: messages} if messages else counts


def is_known(table: str) -> bool:
    """Whether a change's table is one that the platform captures, or a message."""
    return table in CAPTURED_TABLES or table == MESSAGES
