"""Points at which tests make a driver kill itself, between every two commits of a micro-batch.

LOCKSTEP_FAULT=<mode>:<point> names one; without it a point costs a comparison. The process ends as
SIGKILL ends it: nothing is flushed, closed or released. Nothing but tests sets it.
"""

import os
import signal
import threading
from enum import StrEnum


class Point(StrEnum):
    """Where a driver can die. History: of the source, which a query of its own writes."""

    BEFORE_HISTORY = "before_history"
    AFTER_HISTORY = "after_history"
    WITHIN_LARGE = "within_large"
    """Between two slices of a transaction that does not fit into memory."""
    AFTER_HISTORY_SLICE = "after_history_slice"
    """Some rows of such a transaction are in the history, ahead of its frontier."""
    BEFORE_CHANGE_LOG = "before_change_log"
    AFTER_CHANGE_LOG = "after_change_log"
    BEFORE_COMPACTION = "before_compaction"
    AFTER_COMPACTION = "after_compaction"
    BEFORE_VACUUM = "before_vacuum"
    AFTER_VACUUM = "after_vacuum"
    BEFORE_NEXT_RECORDS = "before_next_records"
    BEFORE_HISTORY_TABLES = "before_history_tables"
    AFTER_HISTORY_TABLES = "after_history_tables"
    """Tables that the history did not keep are in it, and it does not say so yet."""
    SIDE_REMEMBERED = "side_remembered"
    SIDE_READ = "side_read"
    SIDE_REMOVED = "side_removed"
    """Of a side snapshot, which `lockstep source capture` takes: between its steps."""


_FAULT = os.environ.get("LOCKSTEP_FAULT", "")
_here = threading.local()


def in_mode(mode: str) -> None:
    """Say whose micro-batch this thread works on."""
    _here.mode = mode


def reach(point: Point, mode: str | None = None) -> None:
    """Die here if this is the point that was named; mode: None for that of this thread."""
    if _FAULT and f"{mode or getattr(_here, 'mode', '')}:{point}" == _FAULT:
        die()


def die() -> None:
    """End this process at once."""
    os.kill(os.getpid(), signal.SIGKILL)
