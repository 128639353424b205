"""A stream whose records come from the source's reader, with others' of the same driver.

Whole transactions come in a queue. The stream's thread takes all that wait, reads the rows that it
needs, and commits them together: as often as it can, and no more than 30 times a second. What
it does not take in time is read again later, from its table's offset on.
"""

import threading
import time
import traceback
from collections.abc import Sequence
from itertools import takewhile

from msgspec.structs import replace

from lockstep.cdc.errors import PoisonedRecordError
from lockstep.cdc.transactions import IncompleteTransaction
from lockstep.errors import LockstepError
from lockstep.faults import Point, in_mode, reach
from lockstep.settings import Settings
from lockstep.streams.given_up import GivenUp
from lockstep.streams.runner import Position, Runner
from lockstep.streams.sink import Sink
from lockstep.streams.source_reader import SourceReader, SourceReaders
from lockstep.streams.subscription import Release, Subscription
from lockstep.streams.writer import Resumable, Writer

COMMIT_SECONDS = 1 / 30
"""Between the beginnings of two commits of a stream that is busy: each is a file or two."""
NEIGHBOUR_SHARE = 0.75
"""Of the time that a write takes, left to each neighbour before the next: five streams without
pauses only queue up for two cores."""
SHARE_SECONDS_MAX = 1.0
"""However long a large transaction took."""
IDLE_SECONDS = 1.0
"""A stream to which nothing comes looks so often for what there is to compact."""


class ReaderRunner(Runner):
    """One stream, in a thread of its own."""

    adapts = True

    def __init__(
        self,
        settings: Settings,
        name: str,
        sink: Sink,
        *,
        readers: SourceReaders,
        given_up: GivenUp,
    ) -> None:
        """given_up: decodes the rows."""
        super().__init__(Writer(settings, name, sink, given_up))
        self._sink, self._readers, self._given_up = sink, readers, given_up
        self._first_offset = sink.reached.resume_offset
        self._frontier = sink.reached.frontier  # of the last transaction taken
        self._seen_offset = sink.reached.resume_offset
        self._stream: Subscription | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self, neighbours: int = 0) -> None:
        self.neighbours = neighbours
        self._subscribe()
        self._thread.start()

    def _subscribe(self, committed_us: int | None = None) -> None:
        self._first_offset = self.reached.resume_offset
        self._stream = self._readers.subscribe(self.reached, committed_us)

    def stop(self) -> None:
        self._stopping.set()
        try:
            if self._stream is not None:
                self._readers.leave(self._stream)
                self._thread.join()
                self._readers.leave(self._stream)  # and what it has just subscribed to
        finally:
            self._upkeep.end()

    def failure(self) -> BaseException | None:
        if self._stream is None or self._thread.is_alive():
            return None
        return self.error or RuntimeError(f"{self.name} just ended")

    @property
    def position(self) -> Position:
        if self._stream is None:
            return Position(self.reached.resume_offset, self.reached.frontier, None)
        return self._stream.position

    @property
    def state_rows(self) -> int:
        """Changes in memory of transactions that are not whole, and what the sink caches."""
        reader = self._reader
        held = 0 if reader is None else reader.tracker.held_changes
        return held + self._sink.cached_rows

    def incomplete(self) -> Sequence[IncompleteTransaction]:
        reader = self._reader
        return () if reader is None else reader.incomplete()

    @property
    def _reader(self) -> SourceReader | None:
        return None if self._stream is None else self._readers.of(self._stream)

    def _run(self) -> None:
        in_mode(self.name)
        try:
            while not self._stopping.is_set():
                if self._work():
                    self._stopping.wait(self._pause_seconds())
        except BaseException as error:
            if not isinstance(error, LockstepError):
                traceback.print_exception(error)  # a defect, or Spark's: the log shows where
            self.error = error

    def _pause_seconds(self) -> float:
        """Until the next commit: the more neighbours, the smaller a stream's share of the time."""
        busy_seconds = self.progress.write_seconds or 0.0
        others_seconds = min(busy_seconds * self.neighbours * NEIGHBOUR_SHARE, SHARE_SECONDS_MAX)
        own_seconds = max(COMMIT_SECONDS, self._sink.pause_seconds) - busy_seconds
        return max(own_seconds, others_seconds)

    def _work(self) -> bool:
        """Take what waits, and write it; returns whether something came."""
        releases = self._stream.take(IDLE_SECONDS)
        if self._stopping.is_set():
            return False
        if releases is None:  # too far behind the others
            self._subscribe(self._stream.position.committed_us)
            return False
        if releases:
            started = time.monotonic()
            self._write(releases)
            self.progress.write_seconds = time.monotonic() - started
            self.progress.note()
        else:
            self._note_reading()
        self._upkeep.look_after()
        reach(Point.BEFORE_NEXT_RECORDS)
        return bool(releases)

    def _note_reading(self) -> None:
        """It gets on as well while the reader follows one transaction for minutes."""
        next_offset = self.position.next_offset
        if next_offset != self._seen_offset:
            self._seen_offset = next_offset
            self.progress.note()

    def _write(self, releases: Sequence[Release]) -> None:
        """Raises PoisonedRecordError once what precedes the record is committed."""
        transactions: list[Resumable] = []
        poison: PoisonedRecordError | None = None
        try:
            for release in releases:
                if release.stray is not None and release.stray.offset >= self._first_offset:
                    self._given_up.require_none(release.stray, self._sink.wanted)
                for resumable in release.transactions:
                    transactions += self._read(resumable)
        except PoisonedRecordError as error:
            poison = error
        unless_stopped = takewhile(lambda _: not self._stopping.is_set(), transactions)
        self._writer.write(unless_stopped, releases[-1].seen_us)
        if poison is not None and not self._stopping.is_set():
            raise poison

    def _read(self, resumable: Resumable) -> list[Resumable]:
        """The transaction with its rows read; nothing if it has come before."""
        transaction, resume_offset = resumable
        if self._frontier is not None and transaction.commit_lsn <= self._frontier:
            return []
        if transaction.changes is not None:
            rows = self._given_up.read(transaction.changes, self._sink.wanted)
            transaction = replace(transaction, changes=rows)
        elif transaction.tables is not None and transaction.tables.isdisjoint(self._sink.wanted):
            transaction = replace(transaction, changes=[])
        self._frontier = transaction.commit_lsn
        return [(transaction, resume_offset)]
