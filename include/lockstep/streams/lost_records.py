"""What is lost with records that cannot be read: of which transactions, and of which hours. Pure.

A record's envelope mostly can be read though its row cannot: it says the table, the transaction and
the commit's time. A record of which nothing can be read belongs to the transaction that the records
around it are of, for the topic has transactions one after the other. The END of a transaction says
its commit LSN.
"""

from collections.abc import Container
from dataclasses import dataclass, field
from datetime import UTC, datetime

from lockstep.cdc.errors import PoisonedRecordError
from lockstep.cdc.records import (
    MESSAGES,
    Begin,
    Change,
    End,
    Record,
    RecordDecoder,
    Skipped,
    Tombstone,
)
from lockstep.cdc.transactions import OffsetRange, widened
from lockstep.sources.given_up import GivenUpRecords, GivenUpTransaction
from lockstep.streams.fact_time import FactTime

TRANSACTIONS_KEPT = 1_000
"""Of one table and hour, 80 bytes each; the others are only counted."""


@dataclass
class _Lost:
    """Records lost in a row, and why the first cannot be read."""

    offsets: OffsetRange
    reason: str
    value: bytes | None
    records: int = 1

    def add(self, offsets: OffsetRange, records: int) -> None:
        self.offsets = OffsetRange(self.offsets.first, offsets.last)
        self.records += records


@dataclass
class _Transaction:
    """Its id as its events have it, 32 bits."""

    tx: int
    committed_us: int | None
    commit_lsn: int | None = None


@dataclass
class _Group:
    """What is lost of one table and one hour."""

    lost: _Lost
    committed_us: list[int] = field(default_factory=list)
    transactions: dict[int, _Transaction] = field(default_factory=dict)
    transaction_count: int = 0
    newest_tx: int | None = None

    def add(self, committed_us: int | None, transaction: _Transaction | None) -> None:
        """A commit's time widens the bounds. A transaction's records mostly come in a row."""
        if committed_us is not None:
            bounds = (*self.committed_us, committed_us)
            self.committed_us = [min(bounds), max(bounds)]
        if transaction is None or transaction.tx == self.newest_tx:
            return
        if transaction.tx in self.transactions:
            return
        self.newest_tx = transaction.tx
        self.transaction_count += 1
        if len(self.transactions) < TRANSACTIONS_KEPT:
            self.transactions[transaction.tx] = transaction


class LostRecords:
    """Follows the topic around a stretch; what cannot be read in the stretch is lost."""

    def __init__(
        self,
        stretch: OffsetRange,
        given_up: Container[int],
        decoder: RecordDecoder,
        fact_time: FactTime,
    ) -> None:
        """given_up: offsets that were given up before, and are not counted again. decoder: refuses
        what any mode cannot read.
        """
        self._stretch = stretch
        self._given_up = given_up
        self._decoder, self._fact_time = decoder, fact_time
        self._groups: dict[tuple[str | None, datetime | None, bool], _Group] = {}
        self._open: dict[int, _Transaction] = {}
        self._unplaced: _Lost | None = None
        self._tx: int | None = None
        self._committed_us: int | None = None

    def note(self, offset: int, value: bytes | None) -> None:
        """Look at the next record of the topic, in the stretch or near it."""
        is_asked = self._stretch.first <= offset <= self._stretch.last
        is_asked = is_asked and offset not in self._given_up
        try:
            wanted = self._decoder.readable if is_asked else ()
            self._follow(self._decoder.decode(value, offset, wanted))
        except PoisonedRecordError as error:
            record = self._decoder.without_row(value, offset)
            self._follow(record)
            if is_asked:
                self._lose(record, _Lost(OffsetRange(offset, offset), error.reason, value))

    @property
    def is_settled(self) -> bool:
        """Whether the END of every transaction that lacks a record was found."""
        return not self._open and self._unplaced is None

    def found(self, xid_near: int) -> list[GivenUpRecords]:
        """What is lost, by table and hour, in the order of the first offsets.

        xid_near: a 64-bit transaction id of about now.
        """
        self._place(self._tx, self._committed_us)
        given_up = [
            GivenUpRecords(
                offsets=group.lost.offsets,
                records=group.lost.records,
                table=table,
                hour=hour,
                is_order_hour=is_order_hour,
                committed_first=_moment(min(group.committed_us, default=None)),
                committed_last=_moment(max(group.committed_us, default=None)),
                transactions=tuple(
                    GivenUpTransaction(
                        widened(one.tx, xid_near), one.commit_lsn, _moment(one.committed_us)
                    )
                    for one in group.transactions.values()
                ),
                transaction_count=group.transaction_count,
                reason=group.lost.reason,
                value=group.lost.value,
            )
            for (table, hour, is_order_hour), group in self._groups.items()
        ]
        return sorted(given_up, key=lambda one: one.offsets.first)

    def _follow(self, record: Record) -> None:
        """Note of which transaction the records are now."""
        place = record.change if isinstance(record, Skipped) else record
        if isinstance(place, Begin):  # what comes before it is not of this transaction
            self._place(self._tx, self._committed_us)
            self._tx = place.tx
        elif isinstance(place, Change):
            self._place(place.tx, place.committed_us)
            self._tx, self._committed_us = place.tx, place.committed_us
        elif isinstance(place, End):
            self._place(place.tx, place.committed_us)
            self._tx, self._committed_us = None, place.committed_us
            if (ended := self._open.pop(place.tx, None)) is not None:
                ended.commit_lsn = place.commit_lsn

    def _lose(self, record: Record, lost: _Lost) -> None:
        """Count the record, or keep it until the next one says where it belongs."""
        change = record.change if isinstance(record, Skipped) else None
        if change is not None:
            at = self._fact_time.of(lost.value, change.table)
            self._add(lost, change.table, at, change.tx, change.committed_us)
        elif isinstance(record, Tombstone):  # a message outside of transactions
            self._add(lost, MESSAGES, None, None, self._committed_us)
        elif self._unplaced is None:
            self._unplaced = lost
        else:
            self._unplaced.add(lost.offsets, lost.records)

    def _place(self, tx: int | None, committed_us: int | None) -> None:
        lost, self._unplaced = self._unplaced, None
        if lost is not None:
            self._add(lost, None, None, tx, committed_us)

    def _add(
        self,
        lost: _Lost,
        table: str | None,
        fact_at: datetime | None,
        tx: int | None,
        committed_us: int | None,
    ) -> None:
        at = fact_at or _moment(committed_us)
        hour = at and at.replace(minute=0, second=0, microsecond=0)
        key = (table, hour, fact_at is not None)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = _Group(lost)
        else:
            group.lost.add(lost.offsets, lost.records)
        transaction = None
        if tx is not None:
            transaction = self._open.setdefault(tx, _Transaction(tx, committed_us))
        group.add(committed_us, transaction)


def _moment(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else datetime.fromtimestamp(microseconds / 1e6, UTC)
