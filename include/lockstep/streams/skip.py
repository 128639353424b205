"""Giving up a record that cannot be read: `lockstep stream skip`."""

from collections.abc import Sequence

from lockstep.cdc.records import MESSAGES, decode
from lockstep.contracts import CAPTURED_TABLES
from lockstep.errors import PoisonedRecordError, StreamError
from lockstep.settings import Settings
from lockstep.sources.change_topic import end_offset, read_again
from lockstep.streams.quarantine import Quarantine, given_up_offsets


def skip_record(settings: Settings, offset: int) -> str:
    """Note the record as given up, for all streams from their next start; returns the reason.

    Refuses, with StreamError, an offset that the topic does not have, one given up already, and a
    record that can be read: nothing that a stream could use is ever thrown away.
    """
    if offset in given_up_offsets(settings):
        raise StreamError(f"the record at offset {offset} is given up already")
    end = end_offset(settings)
    if not 0 <= offset < end:
        raise StreamError(f"the change topic has no offset {offset}; it ends before {end}")
    value = _value_at(settings, offset)
    try:
        decode(value, offset, (*CAPTURED_TABLES, MESSAGES))
    except PoisonedRecordError as error:
        Quarantine(settings, "operator").give_up(offset, error.reason, value)
        return error.reason
    raise StreamError(f"the record at offset {offset} can be read: there is nothing to give up")


def _value_at(settings: Settings, offset: int) -> bytes | None:
    found: Sequence[bytes | None] = [
        value
        for records in read_again(settings, offset, offset + 1)
        for at, value in records
        if at == offset
    ]
    if not found:
        raise StreamError(f"offset {offset} of the change topic holds no record")
    return found[0]
