"""One record of a change topic: its envelope here, its row by functions that the caller gives.

The shapes are Debezium 3.6's PostgreSQL events in JSON without schemas: a change of a table, a
logical decoding message, a transaction's BEGIN and END, a notification of the connector, and the
tombstone after a delete. A record that has none of these shapes, or a row that its function cannot
read, is a PoisonedRecordError.
"""

import re
from collections.abc import Callable, Collection, Mapping
from copy import copy
from typing import Self

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from lockstep.cdc.errors import PoisonedRecordError

MESSAGES = "messages"
"""Stands for the table of a logical message where changes are counted or asked for by table."""


class Change(Struct, frozen=True, gc=False):
    """A change of one row, or a logical message, at its place in a transaction.

    tx: the transaction's id as the event has it, 32 bits; None for a row of a snapshot.
    table: as table_text names it, or MESSAGES.
    op: c, u, d, t (TRUNCATE, which has no row), m, or r (a row of a snapshot).
    row: the row as it is after the change, or before it for a delete; None where it was not
        asked for, or there is none. Of an EnvelopeDecoder it is not read yet.
    committed_us, captured_us: microseconds since the epoch; the commit by the database's clock,
        the reading by Debezium's.
    """

    offset: int
    tx: int | None
    total_order: int
    table: str
    op: str
    row: object
    committed_us: int
    captured_us: int


class Begin(Struct, frozen=True, gc=False):
    offset: int
    tx: int


class End(Struct, frozen=True, gc=False):
    """A transaction's last record. commit_lsn orders transactions; counts are by table."""

    offset: int
    tx: int
    commit_lsn: int
    counts: dict[str, int]
    committed_us: int


class SnapshotNotice(Struct, frozen=True, gc=False):
    """A notification of the connector's initial snapshot: STARTED, COMPLETED, ABORTED, …"""

    offset: int
    kind: str


class Tombstone(Struct, frozen=True, gc=False):
    offset: int


class Skipped(Struct, frozen=True, gc=False):
    """A record that cannot be read and is given up by an operator.

    change: what it still says, without its row; None when nothing of it can be read.
    """

    offset: int
    change: Change | None

    @property
    def tx(self) -> int | None:
        return None if self.change is None else self.change.tx


class Stray(Struct, frozen=True, gc=False):
    """A logical message outside of transactions: a mistake, where messages carry rows."""

    offset: int
    prefix: str


Record = Change | Begin | End | SnapshotNotice | Tombstone | Skipped | Stray


_PUBLIC = "public"
_PUBLIC_SCHEMA = f"{_PUBLIC}."
_JAVA_OBJECT = re.compile(r"[\w.$]*LogicalDecodingMessage\w*@[0-9a-f]+")


class _Source(Struct, gc=False):
    table: str
    schema_: str = msgspec.field(name="schema", default=_PUBLIC)
    ts_us: int | None = None
    tx: int | None = msgspec.field(name="txId", default=None)


class _Place(Struct, gc=False):
    total_order: int


class Message(Struct, gc=False):
    """A logical message; content: in base64."""

    prefix: str
    content: str


class _Count(Struct, gc=False):
    data_collection: str
    event_count: int


class _Envelope(Struct, gc=False):
    """All fields of all shapes: one pass over the bytes says which one it is."""

    op: str | None = None
    source: _Source | None = None
    transaction: _Place | None = None
    before: Raw = Raw(b"null")
    after: Raw = Raw(b"null")
    message: Message | None = None
    ts_ms: int | None = None
    ts_us: int | None = None
    status: str | None = None
    id: str | None = None
    event_count: int | None = None
    data_collections: list[_Count] | None = None
    type: str | None = None
    aggregate_type: str | None = None


ReadRow = Callable[[str, bytes], object]
"""What a change's row says, from its op and the JSON of the row; raises ValueError when it cannot
be read. The row is that after the change, or, of a delete, before it; it may be None."""
ReadMessage = Callable[[str, str], object]
"""What a logical message says, from its prefix and its content (base64)."""


class EnvelopeDecoder:
    """Decodes the records of one change topic, but for the rows in them.

    The row of a change is the bytes of its JSON, or the Message; RecordDecoder.read reads it.
    """

    def __init__(self, topic: str) -> None:
        self.topic = topic

    def of_topic(self, topic: str) -> Self:
        """The same for another topic with changes of the same tables."""
        other = copy(self)
        other.topic = topic
        return other

    def decode(self, value: bytes | None, offset: int, wanted: Collection[str] = ()) -> Record:
        """The record at an offset of the topic; wanted: the tables whose rows are to be read.

        Raises PoisonedRecordError with topic, partition, offset and reason when it cannot be read.
        """
        if value is None:
            return Tombstone(offset)
        try:
            envelope = _ENVELOPE.decode(value)
            if envelope.op is not None:
                return self._change(envelope, offset, wanted)
            if envelope.status is not None:
                return _boundary(envelope, offset)
            if envelope.type is not None:
                return SnapshotNotice(offset, envelope.type)
        except _UNREADABLE as error:
            raise PoisonedRecordError(self.topic, 0, offset, str(error)) from error
        raise PoisonedRecordError(
            self.topic, 0, offset, "neither a change nor a transaction's record nor a notification"
        )

    def without_row(self, value: bytes | None, offset: int) -> Skipped | Tombstone:
        """What a record says that `decode` cannot read: a Tombstone when it has no transaction."""
        try:
            record = self.decode(value, offset)
        except PoisonedRecordError:
            return Skipped(offset, None)
        return Skipped(offset, record) if isinstance(record, Change) else Tombstone(offset)

    def _change(
        self, envelope: _Envelope, offset: int, wanted: Collection[str]
    ) -> Change | Tombstone | Stray:
        source, op = envelope.source, envelope.op
        if source is None:
            raise ValueError("a change without `source`")
        table = MESSAGES if op == "m" else table_text(source.schema_, source.table)
        if op == "m" and source.tx is None:
            return self._outside_transactions(envelope.message, offset, wanted)
        if source.ts_us is None:
            raise ValueError("a change without its time, `source.ts_us`")
        if op != "m" and op not in _OPS:
            raise ValueError(f"operation {op!r} is none of c, u, d, t, r, m")
        if op != "r" and (source.tx is None or envelope.transaction is None):
            raise ValueError(
                "a change without its transaction; provide.transaction.metadata is off"
            )
        return Change(
            offset=offset,
            tx=None if op == "r" else source.tx,
            total_order=offset if op == "r" else envelope.transaction.total_order,
            table=table,
            op=op,
            row=self._row(envelope, table, wanted),
            committed_us=source.ts_us,
            captured_us=envelope.ts_us or (envelope.ts_ms or 0) * 1000,
        )

    def _row(self, envelope: _Envelope, table: str, _wanted: Collection[str]) -> object:
        return _unread(envelope, table)

    def _outside_transactions(
        self, message: Message | None, offset: int, _wanted: Collection[str]
    ) -> Tombstone | Stray:
        """pg_logical_emit_message(false, …) has no transaction, nor have others' heartbeats."""
        return Tombstone(offset) if message is None else Stray(offset, message.prefix)


class RecordDecoder(EnvelopeDecoder):
    """Decodes the records of one change topic: the envelope here, rows by functions for each table.

    rows: by table. A table of the schema public has its bare name, any other `schema.table`; one
    without a function is captured for other pipelines.
    """

    def __init__(
        self,
        topic: str,
        rows: Mapping[str, ReadRow],
        *,
        message_prefix: str = "",
        message: ReadMessage | None = None,
    ) -> None:
        """message_prefix: of the logical messages that `message` reads."""
        super().__init__(topic)
        self._rows = rows
        self._message_prefix = message_prefix
        self._message = message

    @property
    def readable(self) -> frozenset[str]:
        """The tables whose rows it reads, and MESSAGES where it reads these."""
        return frozenset(self._rows) | ({MESSAGES} if self._message else set())

    def read(self, change: Change) -> Change:
        """The change of an EnvelopeDecoder, its row read. Raises PoisonedRecordError as decode."""
        try:
            return replace(change, row=self._read(change.table, change.op, change.row))
        except _UNREADABLE as error:
            raise PoisonedRecordError(self.topic, 0, change.offset, str(error)) from error

    def require_none(self, stray: Stray, wanted: Collection[str]) -> None:
        """Raise PoisonedRecordError when the message would be a row if it had a transaction."""
        if stray.prefix == self._message_prefix and MESSAGES in wanted:
            reason = "a row's message outside its transaction: emit it with `true`"
            raise PoisonedRecordError(self.topic, 0, stray.offset, reason)

    def _row(self, envelope: _Envelope, table: str, wanted: Collection[str]) -> object:
        if table not in wanted:
            return None
        return self._read(table, envelope.op, _unread(envelope, table))

    def _read(self, table: str, op: str, unread: bytes | Message | None) -> object:
        if op == "t":
            return None
        if table == MESSAGES:
            return self._row_of_message(unread)
        if unread == _NOTHING:
            raise ValueError(f"a change ({op}) of {table} without its row")
        return self._rows[table](op, unread)

    def _row_of_message(self, message: Message | None) -> object:
        """What a message of the prefix says; those of other prefixes are nothing to us."""
        if message is None:
            raise ValueError("a logical message without `message`")
        if self._message is None or message.prefix != self._message_prefix:
            return None
        return self._message(message.prefix, message.content)

    def _outside_transactions(
        self, message: Message | None, offset: int, wanted: Collection[str]
    ) -> Tombstone:
        if message is not None:
            self.require_none(Stray(offset, message.prefix), wanted)
        return Tombstone(offset)


def _unread(envelope: _Envelope, table: str) -> bytes | Message | None:
    """The row of a change as the record has it."""
    if table == MESSAGES:
        return envelope.message
    if envelope.op == "t":
        return None
    return bytes(envelope.before if envelope.op == "d" else envelope.after)


def table_text(schema: str, table: str) -> str:
    """How a change's table is named: `table` of the schema public, else `schema.table`."""
    return table if schema == _PUBLIC else f"{schema}.{table}"


_ENVELOPE = msgspec.json.Decoder(_Envelope)
_NOTHING = b"null"
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, ValueError)
_OPS = frozenset("cudtr")


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
    """Changes by table, and messages, whose collection is a Java object's text."""
    counts = {
        one.data_collection.removeprefix(_PUBLIC_SCHEMA): one.event_count
        for one in collections
        if not ("@" in one.data_collection and _JAVA_OBJECT.fullmatch(one.data_collection))
    }
    messages = events - sum(counts.values())
    return {**counts, MESSAGES: messages} if messages else counts
