"""Writes whole transactions into a stream's table: one commit for those that fit into memory.

Who follows the change topic is elsewhere; here a transaction is whole, and each comes once, in
commit order, with the offset from which reading goes on once it is written.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from lockstep.cdc.transactions import Transaction
from lockstep.faults import Point, reach
from lockstep.observe.latency import LatencyWindow
from lockstep.settings import Settings
from lockstep.streams.given_up import GivenUp
from lockstep.streams.large import LargeTransaction
from lockstep.streams.sink import Sink

QUIET_COMMIT_SECONDS = 5.0
"""A frontier that moves without rows is committed this often."""
WRITTEN_TOGETHER_MAX = 20_000
"""Changes of transactions that are written in one commit, unless one alone has more."""

Resumable = tuple[Transaction, int]
"""A transaction, and where reading goes on once it and those before it are written."""


@dataclass
class Progress:
    """What is known of a stream's work, for the heartbeat.

    write_seconds: from the first look at the newest transactions to their commit.
    """

    rows_total: int = 0
    last_progress_at: datetime | None = None
    write_seconds: float | None = None

    def note(self) -> None:
        """It gets on."""
        self.last_progress_at = datetime.now(UTC)


class Writer:
    """Of one stream: its sink, and what is known of its work."""

    def __init__(self, settings: Settings, name: str, sink: Sink, given_up: GivenUp) -> None:
        """given_up: decodes the records of a transaction that is read again."""
        self.name = name
        self.sink = sink
        self.progress = Progress()
        self.latency = LatencyWindow()
        self._settings = settings
        self._given_up = given_up
        self._committed_at = time.monotonic()

    def write(self, transactions: Iterable[Resumable], seen_us: int) -> None:
        """Commit what fits into memory together, and each that does not by itself.

        seen_us: when their last record had been read.
        """
        together: list[Transaction] = []
        held = resume_offset = 0
        for transaction, resume_after in transactions:
            if transaction.changes is None:
                self._commit(together, resume_offset, seen_us)
                self._commit_large(transaction, resume_after, seen_us)
                together, held = [], 0
                continue
            together.append(transaction)
            resume_offset = resume_after
            held += len(transaction.changes)
            if held > WRITTEN_TOGETHER_MAX:
                self._commit(together, resume_offset, seen_us)
                together, held = [], 0
        self._commit(together, resume_offset, seen_us)

    def _commit(self, transactions: list[Transaction], resume_offset: int, seen_us: int) -> None:
        if not transactions:
            return
        quiet = not any(transaction.changes for transaction in transactions)
        if quiet and time.monotonic() - self._committed_at < QUIET_COMMIT_SECONDS:
            return
        rows = self.sink.write(transactions, transactions[-1].commit_lsn, resume_offset, seen_us)
        self._committed_at = time.monotonic()
        self.progress.rows_total += rows.num_rows
        if rows.num_rows:
            self.latency.add(rows, datetime.now(UTC))

    def _commit_large(self, transaction: Transaction, resume_offset: int, seen_us: int) -> None:
        large = LargeTransaction(self._settings, transaction, self._given_up, self._note_slice)
        self.progress.rows_total += self.sink.write_large(large, resume_offset, seen_us)
        self._committed_at = time.monotonic()

    def _note_slice(self) -> None:
        """A slice of a large transaction is done with; the thread may be one of delta-rs."""
        self.progress.note()
        reach(Point.WITHIN_LARGE, self.name)
