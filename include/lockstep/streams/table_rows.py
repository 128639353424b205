"""Rows of a source's tables out of change records: keys, values, and what one transaction left.

Pure. Which tables there are comes from a plan; nothing here knows a history or a query.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Self

from msgspec import Struct
from msgspec.structs import astuple, replace

from lockstep.cdc.records import Change, ReadRow, RecordDecoder, table_text
from lockstep.cdc.transactions import TRUNCATE, Transaction
from lockstep.pipeline.catalog import TableName
from lockstep.pipeline.decoders import UNCHANGED
from lockstep.pipeline.plan import PlannedTable
from lockstep.streams.ops import CREATED, DELETED, SNAPSHOT_ROW, UPDATED, result_op

Key = tuple[object, ...]
Living = Callable[[str], Iterable[Key]]
"""The keys of a table's rows before a transaction, by the table's text; asked on TRUNCATE only."""


class TableRow(Struct, frozen=True, gc=False):
    """A row as one change has it. values: None of a delete.

    texts: the JSON of each value as it was sent; empty where it was not asked for. op: c, u or d,
    where the row itself says what happened to it (it was published); else empty.
    """

    key: Key
    values: tuple[object, ...] | None
    texts: tuple[bytes, ...] = ()
    op: str = ""

    @property
    def is_complete(self) -> bool:
        """Whether no large value is left out."""
        return self.values is None or UNCHANGED not in self.values

    def filled(self, before: Self) -> Self:
        """With the large values that the change left as they were before."""
        if self.is_complete or before.values is None:
            return self
        places = [place for place, value in enumerate(self.values) if value is UNCHANGED]
        values, texts = list(self.values), list(self.texts)
        for place in places:
            values[place] = before.values[place]
            if texts:
                texts[place] = before.texts[place]
        return replace(self, values=tuple(values), texts=tuple(texts))


class RowVersion(Struct, frozen=True, gc=False):
    """A row as a transaction left it. op: c, u or d. tx_id: None of the initial snapshot."""

    table: str
    op: str
    row: TableRow
    tx_id: int | None
    commit_lsn: int
    committed_us: int
    captured_us: int

    def filled(self, before: TableRow) -> Self:
        """With the large values that the row had before."""
        return replace(self, row=self.row.filled(before))


def text_of(table: TableName) -> str:
    """How the change records name a table."""
    return table_text(table.schema, table.name)


def rows_decoder(
    topic: str, tables: Mapping[TableName, PlannedTable], *, keeps_texts: bool = False
) -> RecordDecoder:
    """Decodes the changes of a source's topic; the rows of these tables as TableRow.

    keeps_texts: each row has the JSON of its values, too.
    """
    read = {text_of(name): row_reading(table, keeps_texts) for name, table in tables.items()}
    return RecordDecoder(topic, read)


def row_reading(table: PlannedTable, keeps_texts: bool = False) -> ReadRow:
    """Reads a row of the table as TableRow."""
    decode_key, decode, texts = table.key_decoder.decode, table.decoder.decode, table.decoder.texts

    def row(op: str, raw: bytes) -> TableRow:
        if op == DELETED:
            return TableRow(astuple(decode_key(raw)), None)
        values = astuple(decode(raw))
        return TableRow(table.key_of(values), values, texts(raw) if keeps_texts else ())

    return row


def followed(
    changes: Iterable[Change], wanted: Collection[str], fact: str | None = None
) -> Iterator[Change]:
    """The changes of the wanted tables, the only ones of which there are rows.

    fact: the table that rows of the wanted ones were published of, if they were, or itself: a
    TRUNCATE of it, and no other, deletes them all.
    """
    for change in changes:
        if change.op == TRUNCATE and fact is not None:
            if change.table == fact:
                yield from (replace(change, table=table) for table in wanted)
        elif change.table in wanted:
            yield change


def fold_rows(
    transaction: Transaction, changes: Iterable[Change], living: Living
) -> list[RowVersion]:
    """One version for each row that the transaction changed, in the order of first touch.

    A row whose last change is a delete is deleted (d), one whose first is an insert is created (c),
    any other is updated (u); a TRUNCATE deletes every row that lived before it. A version is not
    complete only if no change of the transaction had the value.
    """
    fold = _Fold(living)
    for change in changes:
        fold.take(change)
    return fold.versions(transaction)


class _Fold:
    """Of each row, by table and key: its first op, its last op, its state, its last change."""

    def __init__(self, living: Living) -> None:
        self._living = living
        self._rows: dict[tuple[str, Key], tuple[str, str, TableRow, Change]] = {}

    def take(self, change: Change) -> None:
        if change.op == TRUNCATE:
            for key in self._alive(change.table):
                self._touch(change, TableRow(key, None), DELETED)
        elif change.row is not None:
            self._touch(change, change.row, op_of(change))

    def versions(self, transaction: Transaction) -> list[RowVersion]:
        return [
            row_version(table, result_op(first, last), row, change, transaction)
            for (table, _), (first, last, row, change) in self._rows.items()
        ]

    def _alive(self, table: str) -> set[Key]:
        touched = {key: last for (of, key), (_, last, _, _) in self._rows.items() if of == table}
        inserted = {key for key, last in touched.items() if last != DELETED}
        return inserted | {key for key in self._living(table) if key not in touched}

    def _touch(self, change: Change, row: TableRow, op: str) -> None:
        place = (change.table, row.key)
        before = self._rows.get(place)
        if before is not None:
            row = row.filled(before[2])
        self._rows[place] = (before[0] if before else op, op, row, change)


def touched(of: RowVersion, table: str, key: Key, values: tuple[object, ...]) -> RowVersion:
    """The version of a row that a change of another one touches: as it was, by that commit."""
    return replace(of, table=table, op=UPDATED, row=TableRow(key, values))


def op_of(change: Change) -> str:
    """What happened to the change's row; one of the snapshot is created."""
    return change.row.op or (CREATED if change.op == SNAPSHOT_ROW else change.op)


def row_version(
    table: str, op: str, row: TableRow, last: Change, transaction: Transaction
) -> RowVersion:
    """The version of a row whose last change this is."""
    return RowVersion(
        table=table,
        op=op,
        row=row,
        tx_id=transaction.tx_id,
        commit_lsn=transaction.commit_lsn,
        committed_us=last.committed_us,
        captured_us=last.captured_us,
    )
