"""How a stream begins whose first rows a side snapshot has, and not the change topic.

They are written in one commit, with the snapshot's position as the frontier: from then on the
stream is as any other, and what the topic has of earlier commits is passed over.
"""

import time
from collections.abc import Callable

from msgspec.structs import replace

from lockstep.cdc.records import RecordDecoder
from lockstep.cdc.transactions import Transaction, TransactionTracker
from lockstep.errors import StreamError
from lockstep.settings import Settings
from lockstep.sources import change_topic
from lockstep.sources.side_snapshots import SideSnapshot
from lockstep.streams.given_up import GivenUp
from lockstep.streams.large import LargeTransaction
from lockstep.streams.sink import Sink


def begin(
    settings: Settings,
    sink: Sink,
    snapshot: SideSnapshot,
    decoder: RecordDecoder,
    progressed: Callable[[], None] = lambda: None,
) -> None:
    """Write the snapshot's rows to a sink whose table has none yet.

    decoder: of the sink's records, in the snapshot's topic. progressed: called after each slice.
    Raises StreamError when the topic does not have the snapshot whole.
    """
    given_up = GivenUp(tuple, decoder)
    transaction = _read(settings, sink, given_up, snapshot, progressed)
    seen_us = time.time_ns() // 1000
    if transaction.changes is None:
        large = LargeTransaction(settings, transaction, given_up, progressed)
        sink.write_large(large, snapshot.first_offset, seen_us)
    else:
        sink.write([transaction], snapshot.position, snapshot.first_offset, seen_us)


def _read(
    settings: Settings,
    sink: Sink,
    given_up: GivenUp,
    snapshot: SideSnapshot,
    progressed: Callable[[], None],
) -> Transaction:
    """The snapshot as one transaction at its position."""
    tracker = TransactionTracker(wanted=sink.wanted, frontier=None, next_offset=0, xid_near=0)
    topic = given_up.topic
    end = change_topic.end_offset(settings, topic)
    for records in change_topic.read_again(settings, 0, end, topic):
        decoded = (given_up.decoded(value, offset, sink.wanted) for offset, value in records)
        for transaction in tracker.feed(decoded):
            return replace(transaction, commit_lsn=snapshot.position)
        progressed()
    raise StreamError(
        f"the topic {topic} does not have the side snapshot {snapshot.number} whole: records were "
        f"removed from it; stop the source's streams, and begin again with a new snapshot"
    )
