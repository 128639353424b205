"""How a stream passes the records that operators gave up, also while it runs.

A decision of `lockstep stream skip` names a stretch of the change topic. It counts only for records
of it that cannot be read: whatever can be read is read.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Sequence

from lockstep.cdc.errors import PoisonedRecordError
from lockstep.cdc.records import Change, EnvelopeDecoder, Record, Stray
from lockstep.cdc.transactions import TRUNCATE, OffsetRange


class GivenUp:
    """The stretches given up. It looks for new ones before it calls a record poisoned."""

    def __init__(
        self,
        look: Callable[[], Sequence[OffsetRange]],
        decoder: EnvelopeDecoder,
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
            if not self._is_given_up(offset):
                raise
        return self._decoder.without_row(value, offset)

    def read(self, changes: Iterable[Change], wanted: Collection[str]) -> list[Change]:
        """The rows of the wanted tables' changes read, which an EnvelopeDecoder left unread.

        Without changes of other tables, and what is given up. Raises PoisonedRecordError when one
        cannot be read and is not given up.
        """
        rows = []
        for change in changes:
            if change.table in wanted or change.op == TRUNCATE:
                try:
                    rows.append(self._decoder.read(change))
                except PoisonedRecordError:
                    if not self._is_given_up(change.offset):
                        raise
        return rows

    def require_none(self, stray: Stray, wanted: Collection[str]) -> None:
        """Raise PoisonedRecordError for a row's message that has no transaction."""
        try:
            self._decoder.require_none(stray, wanted)
        except PoisonedRecordError:
            if not self._is_given_up(stray.offset):
                raise

    def _is_given_up(self, offset: int) -> bool:
        """By the stretches known, or else by those there are now."""
        if offset not in self:
            self._ranges = self._look()
        return offset in self
