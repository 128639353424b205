"""Whole transactions in commit order, out of records that may come twice or out of place.

The clock is the commit order of the database. A transaction is whole when its distinct changes have
reached the counts of its END record; the frontier moves over whole transactions in the order of
their commit LSNs, and nothing behind one that is not whole is released. What arrives again at or
before the frontier is ignored. So delivery at least once gives results exactly once, and what has
been released is always a prefix of the database's history.

A connector that is restarted sends a transaction under way again from its BEGIN on, and counts its
changes otherwise if it captures other tables since. So each later BEGIN starts the transaction from
the beginning, and what lies before it is not counted.

Pure: no clock, no I/O. Records are fed in the order of their offsets, unless they were held back on
their way.
"""

import heapq
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from lockstep.cdc.cuts import XID_SPAN
from lockstep.cdc.errors import SnapshotRepeatedError
from lockstep.cdc.records import Begin, Change, End, Record, Skipped, SnapshotNotice
from lockstep.model.log import SNAPSHOT_COMMIT_LSN

XIDS_AHEAD_MAX = 2**30
"""How far a record's transaction id may lie ahead of those before it; the rest lies behind."""
HELD_CHANGES_MAX = 50_000
"""Changes of one transaction kept in memory (some 50 MB); a larger one is read from the topic again
once it is whole."""
FINISHED_REMEMBERED = 10_000
"""Finished transactions whose late duplicates are recognised at once; others when their END is."""
TRUNCATE = "t"
"""Kept whatever its table: it changes every row at once."""


class OffsetRange(Struct, frozen=True, gc=False):
    """Offsets of the change topic, both inclusive, in which all of a transaction's changes are."""

    first: int
    last: int


class Transaction(Struct, frozen=True, gc=False):
    """A whole transaction, or the whole initial snapshot (tx_id None, commit_lsn 0).

    changes: the wanted ones, by total_order; None when there are more than HELD_CHANGES_MAX.
    offsets: where all of them are in the topic.
    change_count: of all tables, wanted or not.
    tables: of which there are changes; None where a TRUNCATE may be of any, or it is not known.
    """

    tx_id: int | None
    commit_lsn: int
    committed_us: int
    changes: list[Change] | None
    offsets: OffsetRange
    change_count: int
    tables: frozenset[str] | None = None

    @property
    def tx(self) -> int | None:
        """The transaction's id as its events have it, 32 bits."""
        return None if self.tx_id is None else self.tx_id % XID_SPAN


@dataclass(frozen=True)
class IncompleteTransaction:
    """A transaction of which records are missing; missing counts them, changes by their table.

    One that ended holds the frontier back. One without its END, which then is what is missing, does
    not: nothing says where it belongs, nor how many changes it has. Its committed_us is that of the
    transaction before it, if that is known.
    """

    tx_id: int
    committed_us: int | None
    changes_seen: int
    changes_expected: int | None
    missing: Mapping[str, int]


@dataclass
class _Pending:
    """A transaction under way: what was seen of it so far.

    after_us: when the one before ended. begin_offset: of its last BEGIN, if that was seen.
    """

    first_offset: int
    last_offset: int
    after_us: int | None = None
    begin_offset: int | None = None
    changes: list[Change] | None = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    seen_below: int = 1
    seen_ahead: set[int] = field(default_factory=set)
    has_truncate: bool = False

    def is_of_before(self, record: Change | End) -> bool:
        """Whether the record lies before the last BEGIN: it was held back, and came late."""
        return self.begin_offset is not None and record.offset < self.begin_offset

    def add(self, change: Change, *, keep: bool) -> None:
        self.last_offset = max(self.last_offset, change.offset)
        self.first_offset = min(self.first_offset, change.offset)
        if change.tx is not None and self._is_known(change.total_order):
            return
        self.counts[change.table] += 1
        self.has_truncate = self.has_truncate or change.op == TRUNCATE
        if keep and self.changes is not None:
            self.changes.append(change)
            if len(self.changes) > HELD_CHANGES_MAX:
                self.changes = None

    def _is_known(self, total_order: int) -> bool:
        """Note the change's number; whether it was there before. Numbers mostly come in a row."""
        if total_order < self.seen_below or total_order in self.seen_ahead:
            return True
        if total_order == self.seen_below:
            self.seen_below += 1
            while self.seen_below in self.seen_ahead:
                self.seen_ahead.remove(self.seen_below)
                self.seen_below += 1
        else:
            self.seen_ahead.add(total_order)
        return False

    def missing(self, expected: Mapping[str, int]) -> dict[str, int]:
        return {
            table: count - self.counts[table]
            for table, count in expected.items()
            if count > self.counts[table]
        }


def widened(tx: int, xid_near: int) -> int:
    """The 64-bit transaction id around xid_near that has these lower 32 bits.

    From 3 * 2**30 ids back to 2**30 ahead: a topic read again begins long ago.
    """
    newest = xid_near + XIDS_AHEAD_MAX
    wide = newest - (newest - tx) % XID_SPAN
    return wide if wide >= 0 else wide + XID_SPAN


class TransactionTracker:
    """Follows the change topic from one offset on; `feed` gives the transactions that are whole.

    frontier: commit LSN of the last transaction released; None before the snapshot is complete.
    next_offset: records below it have been dealt with and are ignored.
    """

    def __init__(
        self,
        *,
        wanted: Collection[str] | None,
        frontier: int | None,
        next_offset: int,
        xid_near: int,
        held_back: bool = False,
    ) -> None:
        """wanted: tables whose changes are kept, others are only counted; None: of all tables.
        xid_near: a 64-bit transaction id of about now; the events have its lower half only.
        held_back: a transaction's records may come late and twice, so that an offset below
            next_offset does not say that they have been dealt with; their numbers do.
        """
        self.frontier = frontier
        self.frontier_committed_us: int | None = None
        self.next_offset = next_offset
        self.changes_seen = 0
        self._wanted = None if wanted is None else frozenset(wanted)
        self._xid_near = xid_near
        self._unreadable = array("q")
        self._held_back = held_back
        self._pending: dict[int, _Pending] = {}
        self._ended: list[tuple[int, int]] = []
        self._ends: dict[int, End] = {}
        self._newest_end_offset = -1
        self._finished: OrderedDict[int, None] = OrderedDict()
        self._snapshot: _Pending | None = None
        self._actions: dict[type, Callable] = {
            Change: self._note_change,
            Begin: self._note_begin,
            End: self._note_end,
            Skipped: self._note_skipped,
            SnapshotNotice: self._note_snapshot,
        }

    def feed(self, records: Iterable[Record]) -> list[Transaction]:
        """Apply records; returns the transactions that are whole now, in commit order."""
        released: list[Transaction] = []
        for record in records:
            if self.is_dealt_with(record):
                continue
            self.next_offset = max(self.next_offset, record.offset + 1)
            if (action := self._actions.get(type(record))) is not None:
                released.extend(action(record) or ())
        return released

    def is_dealt_with(self, record: Record) -> bool:
        """Whether the record lies below next_offset and can say nothing new."""
        if record.offset >= self.next_offset:
            return False
        return not self._held_back or getattr(record, "tx", None) is None

    @property
    def resume_offset(self) -> int:
        """The lowest offset that is still needed to release what has not been released."""
        firsts = [pending.first_offset for pending in self._pending.values()]
        if self._snapshot is not None:
            firsts.append(self._snapshot.first_offset)
        firsts.extend(end.offset for end in self._ends.values())
        return min(firsts, default=self.next_offset)

    def resume_offsets(self, released: Sequence[Transaction]) -> list[int]:
        """Of each transaction, where reading goes on once it is written and those after it are not.

        released: all that the last `feed` gave. An offset counts what is still held, and the later
        ones of these, whose first records may lie before those of an earlier one.
        """
        offsets: list[int] = []
        needed = self.resume_offset
        for transaction in reversed(released):
            offsets.append(needed)
            needed = min(needed, transaction.offsets.first)
        return offsets[::-1]

    @property
    def held_changes(self) -> int:
        """Changes in memory of transactions that are not released; any thread may ask."""
        pending = list(self._pending.values())  # at once: the thread that feeds goes on
        return sum(len(one.changes or ()) for one in pending)

    def incomplete(self) -> list[IncompleteTransaction]:
        """Those that ended and are not whole, in commit order, and those that others have passed.

        The topic has the transactions one after the other; so one is behind its time when it has
        begun, and another one that comes later in the topic has ended.
        """
        found = []
        for _, tx in sorted(self._ended):
            end, pending = self._ends[tx], self._pending[tx]
            found.append(
                IncompleteTransaction(
                    tx_id=self.widened(tx),
                    committed_us=end.committed_us,
                    changes_seen=pending.counts.total(),
                    changes_expected=sum(end.counts.values()),
                    missing=pending.missing(end.counts),
                )
            )
        for tx, pending in self._pending.items():
            if tx not in self._ends and pending.last_offset < self._newest_end_offset:
                found.append(
                    IncompleteTransaction(
                        tx_id=self.widened(tx),
                        committed_us=pending.after_us,
                        changes_seen=pending.counts.total(),
                        changes_expected=None,
                        missing={"END": 1},
                    )
                )
        return found

    @property
    def xid_near(self) -> int:
        """A 64-bit transaction id of about now, or of the newest transaction released."""
        return self._xid_near

    def widened(self, tx: int) -> int:
        """The 64-bit transaction id around the newest one that has these lower 32 bits."""
        return widened(tx, self._xid_near)

    def _note_begin(self, begin: Begin) -> None:
        if begin.tx in self._finished:
            return
        pending = self._pending_of(begin.tx, begin.offset)
        if pending.begin_offset is None:
            pending.begin_offset = begin.offset
        elif begin.offset > pending.begin_offset:
            offset = begin.offset
            started_again = _Pending(offset, offset, pending.after_us, begin_offset=offset)
            self._pending[begin.tx] = started_again  # an END of before still holds others back

    def _note_skipped(self, skipped: Skipped) -> list[Transaction]:
        """Count what is given up: at its place in its transaction, or, if it does not say that, as
        one change of whichever transaction is around it.
        """
        if skipped.change is not None:
            return self._note_change(skipped.change, is_kept=False)
        self._unreadable.append(skipped.offset)
        return []

    def _note_change(self, change: Change, *, is_kept: bool = True) -> list[Transaction]:
        wanted = self._wanted
        keep = is_kept and (wanted is None or change.table in wanted or change.op == TRUNCATE)
        if change.tx is None:
            if self._snapshot is not None:
                self._snapshot.add(change, keep=keep)
            return []
        self.changes_seen += 1
        if change.tx in self._finished:
            return []
        pending = self._pending_of(change.tx, change.offset)
        if not pending.is_of_before(change):
            pending.add(change, keep=keep)
        return self._release() if change.tx in self._ends else []

    def _note_end(self, end: End) -> list[Transaction]:
        self._newest_end_offset = max(self._newest_end_offset, end.offset)
        if self.frontier is not None and end.commit_lsn <= self.frontier:
            self._pending.pop(end.tx, None)
            self._finish(end.tx)
        elif end.tx not in self._ends:
            self._pending_of(end.tx, end.offset)
            self._ends[end.tx] = end
            heapq.heappush(self._ended, (end.commit_lsn, end.tx))
        elif self._pending[end.tx].is_of_before(self._ends[end.tx]):
            self._ends[end.tx] = end
        return self._release()

    def _note_snapshot(self, notice: SnapshotNotice) -> list[Transaction]:
        """Rows count only of a snapshot that was completed; an unfinished one begins again."""
        if notice.kind == "STARTED":
            if self.frontier is not None:
                raise SnapshotRepeatedError(notice.offset)
            self._snapshot = _Pending(notice.offset, notice.offset)
        elif notice.kind == "ABORTED":
            self._snapshot = None
        elif notice.kind == "COMPLETED" and self._snapshot is not None:
            snapshot, self._snapshot = self._snapshot, None
            snapshot.first_offset += 1  # behind its STARTED, which would be a second one if reread
            self.frontier = SNAPSHOT_COMMIT_LSN
            return [self._released(snapshot, None, SNAPSHOT_COMMIT_LSN, 0), *self._release()]
        return []

    def _pending_of(self, tx: int, offset: int) -> _Pending:
        pending = self._pending.get(tx)
        if pending is None:
            pending = self._pending[tx] = _Pending(offset, offset, self.frontier_committed_us)
        return pending

    def _release(self) -> list[Transaction]:
        """Move the frontier over the transactions that are whole, up to the first that is not."""
        released: list[Transaction] = []
        while self._ended and self.frontier is not None:
            commit_lsn, tx = self._ended[0]
            pending, end = self._pending[tx], self._ends[tx]
            if not self._is_whole(pending, end):
                break
            heapq.heappop(self._ended)
            del self._pending[tx], self._ends[tx]
            self._finish(tx)
            self.frontier = commit_lsn
            tx_id = self.widened(tx)
            self._xid_near = max(self._xid_near, tx_id)  # of a stream that runs for years
            released.append(self._released(pending, tx_id, commit_lsn, end.committed_us))
        return released

    def _is_whole(self, pending: _Pending, end: End) -> bool:
        if pending.is_of_before(end):
            return False
        missing = sum(pending.missing(end.counts).values())
        if not missing:
            return True
        after = bisect_right(self._unreadable, end.offset)
        return missing <= after - bisect_left(self._unreadable, pending.first_offset)

    def _released(
        self, pending: _Pending, tx_id: int | None, commit_lsn: int, committed_us: int
    ) -> Transaction:
        changes = pending.changes
        if changes:
            changes.sort(key=lambda change: change.total_order)
            committed_us = changes[-1].committed_us
        self.frontier_committed_us = committed_us or self.frontier_committed_us
        return Transaction(
            tx_id=tx_id,
            commit_lsn=commit_lsn,
            committed_us=committed_us,
            changes=changes,
            offsets=OffsetRange(pending.first_offset, pending.last_offset),
            change_count=pending.counts.total(),
            tables=None if pending.has_truncate else frozenset(pending.counts),
        )

    def _finish(self, tx: int) -> None:
        self._finished[tx] = None
        if len(self._finished) > FINISHED_REMEMBERED:
            self._finished.popitem(last=False)
