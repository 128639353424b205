"""How a stream passes the records that operators gave up, also while it runs.

A decision of `lockstep stream skip` names a stretch of the change topic. It counts only for records
of it that cannot be read: whatever can be read is read.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence

from lockstep.cdc.errors import PoisonedRecordError
from lockstep.cdc.records import Record, RecordDecoder
from lockstep.cdc.transactions import OffsetRange


class GivenUp:
    """The stretches given up. It looks for new ones before it calls a record poisoned."""

    def __init__(
        self,
        look: Callable[[], Sequence[OffsetRange]],
        decoder: RecordDecoder,
    ) -> None:
        """look: the stretches now, in order, without overlaps. decoder: of the topic's records."""
        self._look = look
        self._decoder = decoder
        self._ranges = look()

    @property
    def topic(self) -> str:
        """The change topic whose records these are."""
        return self._decoder.topic

    def __contains__(self, offset: int) -> bool:
        at = bisect_right(self._ranges, offset, key=lambda one: one.first)
        return at > 0 and offset <= self._ranges[at - 1].last

    def decoded(self, value: bytes | None, offset: int, wanted: Collection[str]) -> Record:
        """The record; of one that cannot be read and is given up, what it says without its row.

        Raises PoisonedRecordError when it is not given up.
        """
        try:
            return self._decoder.decode(value, offset, wanted)
        except PoisonedRecordError:
            if offset not in self:
                self._ranges = self._look()
            if offset not in self:
                raise
        return self._decoder.without_row(value, offset)
