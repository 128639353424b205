"""Whether the change of a row that a stream lacks ever reached the change topic."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from msgspec.structs import astuple

from lockstep.cdc.cuts import XID_SPAN
from lockstep.cdc.errors import PoisonedRecordError
from lockstep.cdc.records import Change, ReadRow, Record, RecordDecoder, Skipped, table_text
from lockstep.errors import StreamError
from lockstep.pipeline.plan import PlannedTable
from lockstep.pipeline.row_keys import Key
from lockstep.settings import Settings
from lockstep.sources import change_topic

BEFORE = timedelta(seconds=5)
"""The broker's clock may be behind the database's."""
DELETED = "d"
_EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
RECORDS_MAX = 50_000
"""Read from the commit's time on; a change that comes later than that counts as lost."""


def where_lost(
    settings: Settings, fact: PlannedTable, rows: Sequence[tuple[Key, int, datetime | None]]
) -> dict[Key, dict]:
    """By key, what the change topic says of the row: `topic` is the sentence, `offset` the record.

    rows: of the fact, each with its key, its transaction and its commit time, as the database had
    them. Behind a savepoint that transaction is a part of the one that the topic names, and both
    have the same commit time (PostgreSQL, pg_xact_commit_timestamp).
    """
    search = _Search(settings, fact)
    return {key: search.where(key, tx, at) for key, tx, at in rows}


class _Search:
    def __init__(self, settings: Settings, fact: PlannedTable) -> None:
        self._settings = settings
        self._table = table_text(fact.name.schema, fact.name.name)
        self._decoder = RecordDecoder(
            settings.names.change_topic, {self._table: _key_reading(fact)}
        )

    def where(self, key: Key, tx_id: int, at: datetime | None) -> dict:
        if at is None:
            return {"topic": "not searched: the database does not say when the order was committed"}
        try:
            first = change_topic.offset_at(self._settings, at - BEFORE)
            record = self._record_of(key, tx_id % XID_SPAN, (at - _EPOCH) // _MICROSECOND, first)
        except StreamError as error:
            return {"topic": f"not searched: {error}"}
        if record is None:
            return {"topic": "its change never reached the change topic: it was lost before"}
        where = f"is in the change topic at offset {record.offset}"
        if isinstance(record, Skipped):
            found = f"a change of its transaction {where} and cannot be read"
        else:
            found = f"its change {where}"
        return {"topic": found, "offset": record.offset}

    def _record_of(self, key: Key, tx: int, at_us: int, first: int) -> Record | None:
        """The row's change, or the first of its transaction whose row cannot be read."""
        end = min(first + RECORDS_MAX, change_topic.end_offset(self._settings))
        for records in change_topic.read_again(self._settings, first, end):
            for offset, value in records:
                try:
                    record = self._decoder.decode(value, offset, (self._table,))
                except PoisonedRecordError:
                    record = self._decoder.without_row(value, offset)
                if self._is_of(record, key, tx, at_us):
                    return record
        return None

    def _is_of(self, record: Record, key: Key, tx: int, at_us: int) -> bool:
        change = record.change if isinstance(record, Skipped) else record
        if not isinstance(change, Change) or change.table != self._table:
            return False
        if change.tx != tx and change.committed_us != at_us:
            return False
        return isinstance(record, Skipped) or change.row == key


def _key_reading(fact: PlannedTable) -> ReadRow:
    """The key of a row; all that is read of the row must be readable, of a delete the key alone."""

    def key(op: str, raw: bytes) -> Key:
        if op == DELETED:
            return astuple(fact.key_decoder.decode(raw))
        return fact.key_of(astuple(fact.decoder.decode(raw)))

    return key
