"""Records of the modes that join nothing: the fact's own rows, and what was published of them.

What was published is an outbox row, which carries it as text, or a logical message. It says so
once, when it is inserted: a pruned outbox says nothing of the rows.
"""

import base64
import binascii
from collections.abc import Callable, Mapping

import msgspec
from msgspec import Struct

from lockstep.cdc.records import ReadMessage, ReadRow, RecordDecoder
from lockstep.pipeline.catalog import TableName
from lockstep.pipeline.plan import Plan, PlannedTable
from lockstep.pipeline.published_rows import PublishedRow, published_decoder
from lockstep.streams.ops import CREATED, SNAPSHOT_ROW
from lockstep.streams.table_rows import TableRow, row_reading, text_of

Decode = Callable[[str | bytes], PublishedRow]


class OutboxRow(Struct, frozen=True):
    """The one column of an outbox that is read."""

    payload: str


def facts_decoder(plan: Plan, tables: Mapping[TableName, PlannedTable]) -> RecordDecoder:
    """Decodes the changes of the plan's topic, every row as TableRow.

    tables: those captured, the fact among them. A row of the fact that lacks a large value is
    refused: nothing that these modes read has it.
    """
    read = {text_of(name): row_reading(table) for name, table in tables.items()}
    fact = text_of(plan.fact.name)
    read[fact] = _whole(fact, read[fact])
    decode = published_decoder(plan.result)
    if plan.manifest.outbox is not None:
        outbox = text_of(plan.manifest.outbox)
        read[outbox] = _outbox_row(outbox, decode)
    return RecordDecoder(
        plan.change_topic,
        read,
        message_prefix=plan.message_prefix,
        message=_message(decode),
    )


def _whole(table: str, read: ReadRow) -> ReadRow:
    def row(op: str, raw: bytes) -> TableRow:
        found = read(op, raw)
        if not found.is_complete:
            raise ValueError(
                f"table {table}: the change lacks a large value that it left as it was; "
                f"ALTER TABLE {table} REPLICA IDENTITY FULL, then write the row again"
            )
        return found

    return row


def _outbox_row(outbox: str, decode: Decode) -> ReadRow:
    """What an outbox row says, when it is inserted."""
    decode_row = msgspec.json.Decoder(OutboxRow).decode

    def row(op: str, raw: bytes) -> TableRow | None:
        if op not in (CREATED, SNAPSHOT_ROW):
            return None
        try:
            return _as_row(decode(decode_row(raw).payload))
        except (msgspec.DecodeError, ValueError) as error:
            raise ValueError(f"table {outbox}: {error}") from error

    return row


def _message(decode: Decode) -> ReadMessage:
    def message(_prefix: str, content: str) -> TableRow:
        try:
            return _as_row(decode(base64.b64decode(content, validate=True)))
        except (binascii.Error, ValueError) as error:
            raise ValueError(f"logical message: {error}") from error

    return message


def _as_row(published: PublishedRow) -> TableRow:
    return TableRow(published.key, published.values, op=published.op)
