"""The rows that a transaction too large for memory left, read from the topic again in slices.

Memory is bounded by the slice and by one small entry for each row that the transaction touches.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from lockstep.cdc.records import Change
from lockstep.cdc.transactions import TRUNCATE
from lockstep.streams.large import LargeTransaction
from lockstep.streams.ops import DELETED, result_op
from lockstep.streams.table_rows import (
    Key,
    Living,
    RowVersion,
    TableRow,
    fold_rows,
    followed,
    op_of,
    row_version,
)


@dataclass
class _Place:
    """Where a row's last state is: its changes from offset `start` to offset `last` make it."""

    first_op: str
    last_op: str
    start: int
    last: int


def large_versions(
    large: LargeTransaction, wanted: Collection[str], living: Living, fact: str | None = None
) -> Iterator[list[RowVersion]]:
    """One version for each row that the transaction changed, in slices, as fold_rows gives them.

    fact: as `followed` has it. A first pass, now, finds where each row's last state is; a snapshot
    has each row of a table once and needs none, but may have more than one outbox row of the fact's
    same row. Only that pass asks who lived before.
    """
    if large.transaction.tx is None and fact is None:
        return (fold_rows(large.transaction, changes, living) for changes in large.changes(wanted))
    places = _Places(living)
    for changes in large.changes(wanted):
        for change in followed(changes, wanted, fact):
            places.note(change)
    slices = (followed(changes, wanted, fact) for changes in large.changes(wanted))
    return _second_pass(large, slices, places)


class _Places:
    """By table and key."""

    def __init__(self, living: Living) -> None:
        self._living = living
        self._by_row: dict[tuple[str, Key], _Place] = {}

    def note(self, change: Change) -> None:
        if change.op == TRUNCATE:
            self._truncate(change)
        elif change.row is not None:
            op = op_of(change)
            place = self._by_row.setdefault(
                (change.table, change.row.key), _Place(op, op, change.offset, change.offset)
            )
            place.last_op, place.last = op, change.offset
            if change.row.is_complete:
                place.start = change.offset

    def of(self, change: Change) -> _Place:
        return self._by_row[change.table, change.row.key]

    def truncated_by(self, change: Change) -> Iterator[Key]:
        """The rows whose last change this TRUNCATE is."""
        for (table, key), place in self._by_row.items():
            if table == change.table and place.last == change.offset:
                yield key

    def _truncate(self, change: Change) -> None:
        touched = {key for table, key in self._by_row if table == change.table}
        for key in self._living(change.table):
            if key not in touched:
                new = _Place(DELETED, DELETED, change.offset, change.offset)
                self._by_row[change.table, key] = new
        for (table, _), place in self._by_row.items():
            if table == change.table and place.last_op != DELETED:
                place.last_op, place.start, place.last = DELETED, change.offset, change.offset


def _second_pass(
    large: LargeTransaction, slices: Iterable[Iterable[Change]], places: _Places
) -> Iterator[list[RowVersion]]:
    unfinished: dict[tuple[str, Key], TableRow] = {}
    of = large.transaction
    for changes in slices:
        found = []
        for change in changes:
            if change.op == TRUNCATE:
                found += [
                    row_version(change.table, DELETED, TableRow(key, None), change, of)
                    for key in places.truncated_by(change)
                ]
            elif change.row is not None:
                found += _finished(change, places.of(change), unfinished, large)
        yield found


def _finished(
    change: Change,
    place: _Place,
    unfinished: dict[tuple[str, Key], TableRow],
    large: LargeTransaction,
) -> Iterator[RowVersion]:
    """The row's version if this change is its last; what it adds to it otherwise."""
    if not place.start <= change.offset <= place.last:
        return
    row, at = change.row, (change.table, change.row.key)
    if at in unfinished:
        row = row.filled(unfinished.pop(at))
    if change.offset < place.last:
        unfinished[at] = row
        return
    op = result_op(place.first_op, place.last_op)
    yield row_version(change.table, op, row, change, large.transaction)
