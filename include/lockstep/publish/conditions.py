"""What a stream must have shown before it feeds consumers; refusals say what is missing."""

from datetime import datetime

from deltalake import DeltaTable

from lockstep.ledger import book
from lockstep.ledger.entries import Judged, Verified, newest_of_each_window
from lockstep.ledger.reached import verified
from lockstep.model.modes import StreamMode
from lockstep.model.verdict import Verdict
from lockstep.pipeline.plan import Plan
from lockstep.publish.errors import CutoverRefusedError
from lockstep.publish.table import Fed
from lockstep.settings import Settings
from lockstep.sinks.append_log import capture_id_of, reached_of
from lockstep.sources.delta import open_table
from lockstep.supervise.health import Health
from lockstep.supervise.observation import observe
from lockstep.waiting import wait_until

FRONTIER_SECONDS_MAX = 30.0
"""A stream that runs passes where another one has been, or a cut, within a second or two."""
POLL_SECONDS = 0.1


def require_verified(
    settings: Settings, plan: Plan, mode: StreamMode, windows: int, as_of: datetime
) -> Verified:
    """Through the last window that is due, for so many windows without a gap; gives since when.

    What was compared in another version of the pipeline counts for nothing, and a gap before these
    windows does not matter. Raises CutoverRefusedError, naming the window that is in the way.
    """
    lines = [line for line in book.judged(settings) if line.mode is mode]
    reach, due = verified(lines, plan.version), plan.manifest.windows.last_due(as_of)
    if reach is None:
        raise CutoverRefusedError(
            mode, f"no window of {mode} has passed a comparison with the batch yet"
        )
    if reach.through < due.end:
        raise CutoverRefusedError(
            mode,
            f"{mode} is verified through {reach.through.isoformat()} only, not through the last "
            f"window that is due, {due}: {_in_the_way_after(lines, reach.through)}",
        )
    have = plan.manifest.windows.count(reach.since, reach.through)
    if have < windows:
        raise CutoverRefusedError(
            mode,
            f"{mode} is verified without a gap since {reach.since.isoformat()}, {have} of the "
            f"{windows} windows asked for: {_in_the_way_before(lines, reach.since)}",
        )
    return reach


def require_running(settings: Settings, mode: StreamMode) -> None:
    """Raises CutoverRefusedError when the stream stands still, or is not well."""
    finding = observe(settings, mode).finding
    if finding.health is not Health.OK:
        raise CutoverRefusedError(
            mode, f"the stream is {finding.health} ({finding.why}), and would publish nothing new"
        )


def require_past(settings: Settings, mode: StreamMode, lsn: int, what: str) -> DeltaTable:
    """Wait a moment until the stream has passed this LSN; gives a version of its log that has.

    Raises CutoverRefusedError when it does not get there.
    """
    uri = settings.table_uri(settings.names.change_log(mode))

    def is_past(log: DeltaTable) -> bool:
        frontier = reached_of(log).frontier
        return frontier is not None and frontier >= lsn

    log = wait_until(lambda: open_table(uri), FRONTIER_SECONDS_MAX, POLL_SECONDS, is_past)
    if not is_past(log):
        raise CutoverRefusedError(
            mode, f"the stream has reached LSN {reached_of(log).frontier}, not yet {what} at {lsn}"
        )
    return log


def require_same_capture(mode: StreamMode, log: DeltaTable, fed: Fed) -> None:
    """Raises CutoverRefusedError when the log is not of the capture that the feeding stream is of.

    A log of another capture does not know what changed between the two: a row deleted in
    between would stay.
    """
    if capture_id_of(log) != fed.capture_id:
        raise CutoverRefusedError(
            mode,
            f"its change log is of the capture {capture_id_of(log)}, what {fed.feed} has published "
            f"of {fed.capture_id} (None: not known before its next step, `lockstep publish step`); "
            "let the batch feed the table first, and run the hours of the gap again",
        )


def _in_the_way_after(lines: list[Judged], through: datetime) -> str:
    """The window that ends what is verified, and what to do about it."""
    for line in _not_passed(lines):
        if line.start <= through < line.end:
            return _came_out(line)
    return (
        f"the window from {through.isoformat()} on was not compared yet; the DAG of the hourly "
        "comparison does that, or `lockstep parity check`"
    )


def _in_the_way_before(lines: list[Judged], since: datetime) -> str:
    """The window after which what is verified begins, and what to do about it."""
    later = "; or wait until enough later windows have passed"
    for line in _not_passed(lines):
        if line.start < since <= line.end:
            return _came_out(line) + later
    return (
        f"the window up to {since.isoformat()} was not compared; `lockstep parity check` does "
        f"that{later}"
    )


def _not_passed(lines: list[Judged]) -> list[Judged]:
    return [line for line in newest_of_each_window(lines) if line.verdict is not Verdict.PASS]


def _came_out(line: Judged) -> str:
    start, end = line.start.isoformat(), line.end.isoformat()
    return (
        f"[{start}, {end}) came out as {line.verdict}; find out why, and compare it again with "
        f"`lockstep parity check --start {start} --end {end}`"
    )
