"""Reads a source's change topic once for all streams of a driver that follow it.

A reader decodes each record but for its row, follows the transactions, and hands the whole ones to
its streams; each reads the rows that it needs, and writes as soon as it is free. A stream that
starts, or has fallen behind, has a reader of its own, from its table's offset on, unless one is
just there; those that start together have one. Once a reader is near the one that is furthest
ahead, its streams go over to that: the one ahead fills a queue for them, too, and the one behind
goes on until it has delivered what that queue lacks. So every transaction after a stream's frontier
comes to it, some twice, which it passes over.
"""

import threading
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from lockstep.cdc.records import Record, Stray
from lockstep.cdc.transactions import IncompleteTransaction, TransactionTracker
from lockstep.errors import LockstepError, StreamError
from lockstep.settings import Settings
from lockstep.sinks.append_log import Reached
from lockstep.sources.change_topic import topic_reading
from lockstep.streams.given_up import GivenUp
from lockstep.streams.record_feed import RecordFeed
from lockstep.streams.runner import Position
from lockstep.streams.subscription import Release, Subscription

RECORDS_MAX = 5_000
"""Records that are followed before the next are read: some 5 MB."""
POLL_SECONDS = 0.25
"""A reader to which nothing comes looks so often for what is asked of it."""
ROOM_SECONDS = 0.01
"""Between two looks of a reader whose streams have no room."""
FULL_SECONDS_MAX = 3.0
"""A stream without room is waited for so long, before it is left behind the others. To read the
topic again for it costs more than that of what it has not taken."""
GATHER_SECONDS = 10.0
"""A reader waits so long at most for the streams that start with it."""
NEAR_RECORDS = 20_000
"""So many records behind the one that is furthest ahead, a reader's streams go over to it."""


class SourceReaders:
    """All readers of one change topic in a process: one, unless a stream is behind the others.

    lock: for which streams each of them has.
    """

    def __init__(
        self,
        settings: Settings,
        given_up: GivenUp,
        xid_near: int,
        gathered: threading.Event | None = None,
    ) -> None:
        """given_up: of the topic, with an EnvelopeDecoder. xid_near: as of TransactionTracker.

        gathered: set once the streams that are to have one reader have all subscribed; none begins
            to read before that. None: each reads at once.
        """
        self.settings, self.given_up, self.xid_near = settings, given_up, xid_near
        self._gathered = gathered
        self.lock = threading.Lock()
        self._readers: list[SourceReader] = []

    def subscribe(self, reached: Reached, committed_us: int | None = None) -> Subscription:
        """For a stream whose table goes so far: all transactions after its frontier.

        committed_us: when the last of them ended, if that is known.
        """
        stream = Subscription(Position(reached.resume_offset, reached.frontier, committed_us))
        with self.lock:
            living = self._living()
            newest = [reader.tracker.xid_near for reader in living]
            self.xid_near = max([self.xid_near, *newest])
            if not any(reader.takes(stream, reached) for reader in living):
                reader = SourceReader(self, stream, reached)
                reader.start()
                self._readers.append(reader)
        return stream

    def leave(self, stream: Subscription) -> None:
        """Nothing comes to the stream any more."""
        with self.lock:
            for reader in self._living():
                reader.forget(stream)
        stream.end()

    def of(self, stream: Subscription) -> "SourceReader | None":
        """The reader that the stream has now; None once it is over."""
        with self.lock:
            return next((one for one in self._readers if stream in one.streams), None)

    def ahead_of(self, reader: "SourceReader") -> "SourceReader | None":
        """The reader furthest ahead; None if it is this one. For one that holds the lock."""
        lead = max(self._living(), key=lambda one: one.position.next_offset, default=reader)
        return None if lead is reader else lead

    def wait_for_others(self) -> None:
        """Until the streams that start together have subscribed, but not for long."""
        if self._gathered is not None:
            self._gathered.wait(GATHER_SECONDS)

    def _living(self) -> "list[SourceReader]":
        self._readers = [one for one in self._readers if not one.is_over]
        return self._readers


class _Overlap(NamedTuple):
    """What a reader ahead has delivered since its position `since`, for one that is behind."""

    lead: "SourceReader"
    queue: Subscription
    since: Position


class SourceReader:
    """One consumer and one tracker, in a thread that ends when no stream is left.

    streams: those that it delivers to. position: of its last release.
    """

    def __init__(self, readers: SourceReaders, stream: Subscription, reached: Reached) -> None:
        """reached: what the stream's table holds."""
        self.tracker = TransactionTracker(
            wanted=None,
            frontier=reached.frontier,
            next_offset=reached.resume_offset,
            xid_near=readers.xid_near,
        )
        self._feed = RecordFeed(self.tracker)
        self.streams = [stream]
        self.position = stream.position
        self.is_over = False
        self._readers = readers
        self._queues: list[Subscription] = []
        self._overlap: _Overlap | None = None

    def start(self) -> None:
        threading.Thread(target=self._run, name="source reader", daemon=True).start()

    def takes(self, stream: Subscription, reached: Reached) -> bool:
        """Whether it delivers to the stream from now on: what is to come, and that soon.

        For one that holds the lock.
        """
        has_passed = _order(self.position.frontier) > _order(reached.frontier)
        behind = reached.resume_offset - self.position.next_offset
        if has_passed or behind > NEAR_RECORDS:
            return False
        self.streams.append(stream)
        return True

    def forget(self, stream: Subscription) -> None:
        """For one that holds the lock."""
        self.streams = [one for one in self.streams if one is not stream]
        self._queues = [one for one in self._queues if one is not stream]

    def incomplete(self) -> list[IncompleteTransaction]:
        """As of RecordFeed."""
        return self._feed.incomplete()

    def _run(self) -> None:
        topic, first = self._readers.given_up.topic, self.tracker.next_offset
        error: BaseException | None = StreamError("the source's reader just ended")
        try:
            self._readers.wait_for_others()
            with topic_reading(self._readers.settings, topic, first) as reading:
                while not self._is_done():
                    self._take(reading.records(RECORDS_MAX, POLL_SECONDS))
            error = None
        except BaseException as failure:  # whatever it is, the streams wait for this thread
            if not isinstance(failure, LockstepError):
                traceback.print_exception(failure)  # a defect: the log shows where
            error = failure
        finally:
            self._end(error)

    def _is_done(self) -> bool:
        """Whether no stream is left: they stopped, or went over to the reader ahead."""
        with self._readers.lock:
            self._go_over()
            self.is_over = not self.streams
            return self.is_over

    def _take(self, records: Sequence[tuple[int, bytes | None]]) -> None:
        """Raises PoisonedRecordError once what precedes the record is delivered."""
        seen_us = time.time_ns() // 1000
        while records:
            stretch = _Stretch(self._readers.given_up, records)
            fed = self._feed.feed(stretch)
            release = Release(fed.transactions, stretch.stray, self._feed.position, seen_us)
            self._hand_out(release)
            if fed.poison is not None:
                raise fed.poison
            records = records[stretch.count :]

    def _hand_out(self, release: Release) -> None:
        """Wait for streams without room, for one that others have to wait for not too long."""
        while True:
            with self._readers.lock:
                full = [one for one in self.streams if one.is_full]
                is_late = all(one.full_seconds > FULL_SECONDS_MAX for one in full)
                if not full or (is_late and len(full) < len(self.streams)):
                    for one in (*full, *(one for one in self._queues if one.is_full)):
                        self.forget(one)
                        one.end()
                    self.position = release.position
                    for one in (*self.streams, *self._queues):
                        one.put(release)
                    return
            time.sleep(ROOM_SECONDS)

    def _go_over(self) -> None:
        """Hand the streams over to the reader ahead, once it is near; the caller holds the lock."""
        overlap = self._overlap
        if overlap is None:
            lead = self._readers.ahead_of(self)
            if lead is not None and self._is_near(lead):
                queue = Subscription(lead.position)
                lead._queues.append(queue)
                self._overlap = _Overlap(lead, queue, lead.position)
        elif overlap.queue.is_over:
            self._overlap = None
        elif _order(self.position.frontier) >= _order(overlap.since.frontier):
            for release in overlap.queue.take(0) or ():
                for stream in self.streams:
                    stream.put(release)
            lead = overlap.lead
            lead.forget(overlap.queue)
            for stream in self.streams:
                stream.put(Release((), None, lead.position, 0))
            lead.streams += self.streams
            self.streams, self._overlap = [], None

    def _is_near(self, lead: "SourceReader") -> bool:
        return lead.position.next_offset - self.position.next_offset <= NEAR_RECORDS

    def _end(self, error: BaseException | None) -> None:
        with self._readers.lock:
            self.is_over = True
            if self._overlap is not None:
                self._overlap.lead.forget(self._overlap.queue)
            for one in (*self.streams, *self._queues):
                one.end(error)
            self.streams, self._queues = [], []


class _Stretch(Iterable[Record]):
    """The records, decoded, up to a stray.

    A stray begins the next stretch: what precedes it is to be written with a resume offset that
    does not lie behind it, for it may stop a stream. count: of the records that were taken.
    """

    def __init__(self, given_up: GivenUp, records: Sequence[tuple[int, bytes | None]]) -> None:
        self._given_up, self._records = given_up, records
        self.count = 0
        self.stray: Stray | None = None

    def __iter__(self) -> Iterator[Record]:
        for offset, value in self._records:
            record = self._given_up.decoded(value, offset, ())
            if isinstance(record, Stray):
                if self.count:
                    return
                self.stray = record
            self.count += 1
            yield record


def _order(frontier: int | None) -> int:
    """Before the snapshot there is no frontier; the snapshot's is 0."""
    return -1 if frontier is None else frontier
