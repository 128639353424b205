"""A transaction tracker that one thread feeds, up to what cannot be read, and others look at."""

import threading
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from lockstep.cdc.errors import PoisonedRecordError
from lockstep.cdc.records import Record
from lockstep.cdc.transactions import IncompleteTransaction, TransactionTracker
from lockstep.streams.runner import Position
from lockstep.streams.writer import Resumable

LOOK_SECONDS_MAX = 0.2
"""A look from outside waits so long for records that are being followed."""


class Fed(NamedTuple):
    """transactions: that are whole now. poison: the record that ended the records, if one did."""

    transactions: list[Resumable]
    poison: PoisonedRecordError | None


class RecordFeed:
    """tracker: fed by `feed` alone."""

    def __init__(self, tracker: TransactionTracker) -> None:
        self.tracker = tracker
        self._feeding = threading.Lock()
        self._incomplete: list[IncompleteTransaction] = []

    def feed(self, records: Iterable[Record]) -> Fed:
        """Apply the records, decoded as they are asked for, up to the first that cannot be read."""
        poison: PoisonedRecordError | None = None

        def readable() -> Iterator[Record]:
            nonlocal poison
            try:
                yield from records
            except PoisonedRecordError as error:
                poison = error

        with self._feeding:
            released = self.tracker.feed(readable())
            resume_offsets = self.tracker.resume_offsets(released)
        return Fed(list(zip(released, resume_offsets, strict=True)), poison)

    @property
    def position(self) -> Position:
        """Up to where records were fed; any thread may ask."""
        tracker = self.tracker
        return Position(tracker.next_offset, tracker.frontier, tracker.frontier_committed_us)

    def incomplete(self) -> list[IncompleteTransaction]:
        """As of the tracker; of before, while many records are fed. Any thread may ask."""
        if self._feeding.acquire(timeout=LOOK_SECONDS_MAX):
            try:
                self._incomplete = self.tracker.incomplete()
            finally:
                self._feeding.release()
        return self._incomplete
