"""When a driver tries the writer of the source's history again, and without which columns.

A history that failed fails no stream: the streams of its driver go on, and it is tried again.
"""

import logging
import math
import time
from collections.abc import Iterable

from lockstep.cdc.errors import PoisonedRecordError
from lockstep.pipeline.catalog import TableName
from lockstep.pipeline.decoders import UnreadableColumnError
from lockstep.pipeline.plan import PlannedTable
from lockstep.streams.modes import Modes

log = logging.getLogger(__name__)

PAUSE_SECONDS = 30.0
"""After the writer failed, before it is tried again; also after a record that cannot be read: once
that is given up with `lockstep stream skip`, the writer goes on by itself."""


class HistoryTries:
    """unread: the columns that the history leaves out since it could not read them."""

    def __init__(self) -> None:
        self.unread: set[tuple[TableName, str]] = set()
        self._not_before = 0.0

    @property
    def is_due(self) -> bool:
        return time.monotonic() >= self._not_before

    def pause(self) -> None:
        self._not_before = time.monotonic() + PAUSE_SECONDS

    def note_failure(self, failure: BaseException, modes: Modes) -> None:
        """It is tried again, unless that cannot help. modes: of which it was the history."""
        if self._leaves_out(failure, modes):
            self._not_before = 0.0
            return
        helps = getattr(failure, "restart_helps", True) or isinstance(failure, PoisonedRecordError)
        self._not_before = time.monotonic() + PAUSE_SECONDS if helps else math.inf

    def read_again(self, tables: Iterable[PlannedTable]) -> None:
        """Try the columns of these tables again: they may be as they were."""
        self.unread -= {(table.name, column) for table in tables for column in table.columns}

    def _leaves_out(self, failure: BaseException, modes: Modes) -> bool:
        """Whether the history goes on without the column that it cannot read.

        The streams that read it stop by its name; those of other pipelines need the rest.
        """
        why = failure.__cause__
        if not isinstance(why, UnreadableColumnError):
            return False
        is_key = why.column in modes.captured[why.table].key
        column = why.table, why.column
        if is_key or column in self.unread:
            return False
        self.unread.add(column)
        log.warning("the history leaves out %s.%s from now on", *column)
        return True
