"""The time of a fact out of a change whose row cannot be read otherwise. Pure."""

import base64
import binascii
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
import pyarrow as pa
from msgspec import Meta, Raw, Struct

from lockstep.cdc.records import MESSAGES
from lockstep.pipeline.plan import Plan
from lockstep.streams.fact_records import OutboxRow
from lockstep.streams.table_rows import text_of

Find = Callable[[bytes | str], datetime | None]
"""Of a JSON object the time that it has; None where it has none."""


class _Message(Struct):
    content: str


class _Event(Struct):
    before: Raw = Raw(b"null")
    after: Raw = Raw(b"null")
    message: _Message | None = None


class FactTime:
    """Finds the time that says which window a row is in, for one pipeline.

    In a row of the fact that is the column that the time is a copy of; where it is none, only what
    was published says it.
    """

    def __init__(self, plan: Plan) -> None:
        self._fact = text_of(plan.fact.name)
        self._outbox = text_of(plan.manifest.outbox) if plan.manifest.outbox else None
        self._in_row = self._in_published = _nowhere
        if plan.fact_time is not None:
            type_ = plan.fact.types[plan.fact_time]
            self._in_row = _finding(plan.fact_time, type_.decoded, type_.value)
        time = plan.result.time
        if time is not None and pa.types.is_timestamp(plan.result.schema.field(time).type):
            self._in_published = _finding(time, Annotated[datetime, Meta(tz=True)], lambda at: at)

    def of(self, value: bytes, table: str) -> datetime | None:
        """The time of the fact that a change of this table is about; None where it does not say so.

        value: a change as Debezium writes it, of the fact, the outbox, or a message.
        """
        try:
            event = msgspec.json.decode(value, type=_Event)
            return next((at for at in self._times(event, table) if at is not None), None)
        except (msgspec.DecodeError, UnicodeDecodeError, binascii.Error):
            return None

    def _times(self, event: _Event, table: str) -> Iterator[datetime | None]:
        if table == MESSAGES and event.message is not None:
            content = base64.b64decode(event.message.content, validate=True)
            yield self._in_published(content)
        elif table == self._outbox:
            yield self._in_published(msgspec.json.decode(event.after, type=OutboxRow).payload)
        elif table == self._fact:
            yield from map(self._in_row, (bytes(event.after), bytes(event.before)))


def _finding(name: str, decoded: Any, convert: Callable[[Any], datetime | None]) -> Find:
    timed = msgspec.defstruct("Timed", [("at", decoded)], rename={"at": name})
    decode = msgspec.json.Decoder(timed).decode

    def find(content: bytes | str) -> datetime | None:
        try:
            at = convert(decode(content).at)
        except (msgspec.DecodeError, UnicodeDecodeError, ValueError):
            return None
        return at and at.astimezone(UTC)

    return find


def _nowhere(_content: bytes | str) -> None:
    return None
