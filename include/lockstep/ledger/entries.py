"""The ledger's lines, and how far a mode is verified. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from lockstep.contracts import DifferenceClass, StreamMode, Verdict, Window

LEDGER_COLUMNS = {
    "check_id": "string",
    "window_start": "timestamp",
    "window_end": "timestamp",
    "mode": "string",
    "verdict": "string",
    "reason": "string",
    "run_id": "string",
    "cut_snapshot": "string",
    "cut_lsn": "bigint",
    "batch_version": "bigint",
    "stream_version": "bigint",
    "stream_frontier": "bigint",
    "orders_compared": "bigint",
    **{str(kind): "bigint" for kind in DifferenceClass},
    "definition": "string",
    "checked_at": "timestamp",
    "seconds": "double",
}
DIFFERENCES_COLUMNS = {
    "check_id": "string",
    "window_start": "timestamp",
    "mode": "string",
    "class": "string",
    "order_id": "bigint",
    "differing_columns": "string",
    "batch": "string",
    "stream": "string",
    "evidence": "string",
}
"""What differs: differing_columns, batch, stream and evidence are JSON."""


@dataclass(frozen=True)
class Comparison:
    """One line: a window, a mode, and what comparing them came to.

    reason: why the verdict is what it is, a sentence.
    cut_lsn, stream_frontier: commit LSNs; stream_frontier None when the stream has none yet.
    counts: orders by class; those that are not there are 0.
    definition: identifies the SQL and the policy that judged.
    seconds: how long it took, without the start of a session.
    """

    check_id: str
    window: Window
    mode: StreamMode
    verdict: Verdict
    reason: str
    run_id: str
    cut_snapshot: str
    cut_lsn: int
    batch_version: int
    stream_version: int
    stream_frontier: int | None
    orders_compared: int
    definition: str
    checked_at: datetime
    seconds: float
    counts: Mapping[DifferenceClass, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Difference:
    """One order that differs, with both sides' values and what explains it, as JSON texts."""

    kind: DifferenceClass
    order_id: int
    differing_columns: str
    batch: str | None
    stream: str | None
    evidence: str


@dataclass(frozen=True)
class Verified:
    """A mode agrees with the hourly table from `since` to `through`, without a gap."""

    since: datetime
    through: datetime


class Judged(NamedTuple):
    """The least of a line: which window of which mode came to which verdict, and when."""

    mode: StreamMode
    start: datetime
    end: datetime
    verdict: Verdict
    checked_at: datetime


def newest_of_each_window(lines: Iterable[Judged]) -> list[Judged]:
    """Of one mode's lines the last of each window, in the order of the windows."""
    newest: dict[tuple[datetime, datetime], Judged] = {}
    for line in sorted(lines, key=lambda line: line.checked_at):
        newest[line.start, line.end] = line
    return [newest[bounds] for bounds in sorted(newest)]


def verified(lines: Iterable[Judged]) -> Verified | None:
    """How far a mode is verified, given all of its lines; None when no window ever passed.

    It begins with the first window that passed and moves over windows that passed, each beginning
    where the one before ended. Whatever else is found there, or nothing, stops it, until that
    window is compared again and passes.
    """
    since = through = None
    for line in newest_of_each_window(lines):
        passed = line.verdict is Verdict.PASS
        if through is None:
            since, through = (line.start, line.end) if passed else (None, None)
        elif not passed or line.start > through:
            break
        else:
            through = max(through, line.end)
    return None if through is None else Verified(since, through)
