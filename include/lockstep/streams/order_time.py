"""The order's time out of a change whose row cannot be read otherwise. Pure."""

import base64
import binascii
from collections.abc import Iterator
from datetime import UTC, datetime

import msgspec
from msgspec import Raw, Struct

from lockstep.cdc.records import MESSAGES
from lockstep.pizzeria import ORDERS, OUTBOX


class _Message(Struct):
    content: str


class _Event(Struct):
    before: Raw = Raw(b"null")
    after: Raw = Raw(b"null")
    message: _Message | None = None


class _OutboxRow(Struct):
    payload: str


class _Timed(Struct):
    order_time: datetime


def order_time(value: bytes, table: str) -> datetime | None:
    """The time of the order that a change of this table is about; None where it does not say so.

    value: a change as Debezium writes it, of the orders, the outbox, or a message.
    """
    try:
        event = msgspec.json.decode(value, type=_Event)
        for content in _contents(event, table):
            at = _time_in(content)
            if at is not None:
                return at
    except (msgspec.DecodeError, UnicodeDecodeError, binascii.Error):
        return None
    return None


def _contents(event: _Event, table: str) -> Iterator[bytes | str]:
    """What can have the field order_time, as JSON."""
    if table == MESSAGES and event.message is not None:
        yield base64.b64decode(event.message.content, validate=True)
    elif table == OUTBOX:
        yield msgspec.json.decode(event.after, type=_OutboxRow).payload
    elif table == ORDERS:
        yield from (bytes(event.after), bytes(event.before))


def _time_in(content: bytes | str) -> datetime | None:
    try:
        at = msgspec.json.decode(content, type=_Timed).order_time
    except msgspec.DecodeError:
        return None
    return None if at.tzinfo is None else at.astimezone(UTC)
