"""Follows a stretch of the change topic for one stream: records in, whole transactions, one commit.

A record that cannot be read, and is not given up, ends it after what precedes it is committed.
"""

import time
from collections.abc import Iterator, Sequence

from lockstep.cdc.records import Record
from lockstep.cdc.transactions import TransactionTracker
from lockstep.settings import Settings
from lockstep.streams.given_up import GivenUp
from lockstep.streams.record_feed import RecordFeed
from lockstep.streams.sink import Sink
from lockstep.streams.writer import Writer

Records = Sequence[tuple[int, bytes | None]]


class Follower:
    """The records of one stream's own reading, decoded for it alone, and their writer."""

    def __init__(
        self,
        settings: Settings,
        name: str,
        sink: Sink,
        *,
        xid_near: int,
        given_up: GivenUp,
        held_back: bool = False,
    ) -> None:
        """given_up: decodes the records. held_back: as of TransactionTracker."""
        self.writer = Writer(settings, name, sink, given_up)
        self.tracker = TransactionTracker(
            wanted=sink.wanted,
            frontier=sink.reached.frontier,
            next_offset=sink.reached.resume_offset,
            xid_near=xid_near,
            held_back=held_back,
        )
        self.feed = RecordFeed(self.tracker)
        self._held_back = held_back
        self._given_up = given_up

    @property
    def topic(self) -> str:
        """The topic that the records are of."""
        return self._given_up.topic

    def follow(self, records: Records) -> None:
        """Take records (offset, value) in the order of their offsets.

        Raises PoisonedRecordError, after what precedes the record is committed.
        """
        seen_us = time.time_ns() // 1000
        fed = self.feed.feed(self._readable(records))
        self.writer.write(fed.transactions, seen_us)
        if fed.poison is not None:
            raise fed.poison

    def _readable(self, records: Records) -> Iterator[Record]:
        """Decode what is new; of a table that is not wanted, or not known, a change counts."""
        wanted = self.writer.sink.wanted
        for offset, value in records:
            if not self._held_back and offset < self.tracker.next_offset:
                continue
            yield self._given_up.decoded(value, offset, wanted)
