"""Giving up records that cannot be read: `lockstep stream skip`."""

from lockstep.cdc.transactions import OffsetRange
from lockstep.errors import StreamError
from lockstep.settings import Settings
from lockstep.sources.capture import current_xid
from lockstep.sources.change_topic import end_offset, first_offset, read_again
from lockstep.sources.given_up import GivenUpRecords
from lockstep.streams.fact_time import FactTime
from lockstep.streams.given_up import GivenUp
from lockstep.streams.lost_records import LostRecords
from lockstep.streams.modes import Modes
from lockstep.streams.quarantine import Quarantine

LOOK_BACK_RECORDS = 1_000
"""Before the stretch, for the transaction that its first record is of."""
LOOK_AHEAD_RECORDS = 100_000
"""Behind the stretch, for the END of its last transaction: more than most have."""


def skip_records(settings: Settings, first: int, last: int | None) -> list[GivenUpRecords]:
    """Give up what cannot be read between two offsets, both inclusive; streams then pass it.

    last: None for the topic's end. Returns what is given up, by table and hour. What can be read is
    left alone: nothing that a stream could use is ever thrown away. Raises StreamError when the
    topic does not have these offsets, or nothing is left there to give up.
    """
    end = end_offset(settings)
    stretch = OffsetRange(first, end - 1 if last is None else last)
    if not 0 <= first <= stretch.last < end:
        what = f"offset {first}" if first == last else f"offsets {first} to {stretch.last}"
        raise StreamError(f"the change topic has no {what}; it ends before {end}")
    lost = _lost(settings, stretch, end).found(current_xid(settings))
    if not lost:
        what = f"at offset {first}" if first == stretch.last else f"from {first} to {stretch.last}"
        raise StreamError(
            f"there is nothing to give up {what} of the change topic: each record there can be "
            "read, or is given up already"
        )
    Quarantine(settings, "operator", settings.names.change_topic).give_up(lost)
    return lost


def _lost(settings: Settings, stretch: OffsetRange, end: int) -> LostRecords:
    """Read the stretch, a little before it, and on until its last transaction has ended."""
    modes = Modes.of(settings)
    decoder = modes.strictest_decoder
    given_up_before = GivenUp(modes.look, decoder)
    lost = LostRecords(stretch, given_up_before, decoder, FactTime(modes.plan))
    begin = max(stretch.first - LOOK_BACK_RECORDS, first_offset(settings))
    end = min(stretch.last + 1 + LOOK_AHEAD_RECORDS, end)
    for records in read_again(settings, begin, end):
        for offset, value in records:
            lost.note(offset, value)
        if records and records[-1][0] >= stretch.last and lost.is_settled:
            break
    return lost
