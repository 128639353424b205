"""Whether a window can be compared with a stream yet. Reads Delta alone; starts no Spark."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from deltalake import DeltaTable

from lockstep.cdc.cuts import Cut
from lockstep.cdc.run_commits import RepairCommit, RunCommit
from lockstep.model.verdict import Verdict
from lockstep.model.window import Window
from lockstep.parity.versions import HistoryReader
from lockstep.pipeline.errors import PipelineError
from lockstep.pipeline.modes import STREAM_MODES, Mode
from lockstep.pipeline.plan import Plan
from lockstep.pipeline.row_keys import quoted
from lockstep.pipeline.version import VERSION_OF_BEFORE
from lockstep.settings import Settings
from lockstep.sinks.append_log import capture_id_of, pipeline_version_of, reached_of
from lockstep.sinks.window_conditions import of_time
from lockstep.sources.delta import open_table, run_query
from lockstep.sources.hourly_runs import WrittenWindow, written_by
from lockstep.sources.side_snapshots import read_side_snapshots


@dataclass(frozen=True)
class Readiness:
    """Both sides at one point each, and what stands against comparing them.

    The stream's is its frontier; stream_version is the newest there was, for people to read.

    repairs: of the run's rows, the oldest first; a row is compared at its last repair's cut.

    verdict: waiting, not_covered, or None when nothing stands against it; reason says why.
    frontier: the stream's; None before its first commit.
    version: of the pipeline that both are of. capture_id: of the stream's changes.
    """

    run: RunCommit
    batch_version: int
    stream_version: int
    frontier: int | None
    verdict: Verdict | None
    reason: str
    repairs: tuple[RepairCommit, ...] = ()
    version: str = VERSION_OF_BEFORE
    capture_id: int | None = None

    def cuts_of_repaired(self) -> dict[int | str, Cut]:
        """The cut of each row that was repaired, its last repair's, by its key in the commit."""
        return {key: repair.cut for repair in self.repairs for key in repair.row_keys}


def modes_with_tables(settings: Settings, plan: Plan) -> list[Mode]:
    """The modes that ever ran."""
    return [
        mode
        for mode in STREAM_MODES
        if DeltaTable.is_deltatable(settings.table_uri(plan.change_log(mode)))
    ]


def readiness(settings: Settings, plan: Plan, window: Window, mode: Mode) -> Readiness:
    """What stands against comparing the window with the mode, by both tables as they are now.

    Raises PipelineError when the pipeline has no such mode, or no windows; WindowNotWrittenError
    when no run wrote the window; LakehouseError when a table is not there.
    """
    _require(plan, mode)
    batch = open_table(settings.table_uri(plan.hourly_table))
    written = written_by(batch, window)
    stream = open_table(settings.table_uri(plan.change_log(mode)))
    verdict, reason = _hindrance(settings, plan, written, stream)
    if other := _other_version(written.run, stream, plan.version):
        verdict, reason = Verdict.NOT_COVERED, other
    return Readiness(
        run=written.run,
        batch_version=batch.version(),
        stream_version=stream.version(),
        frontier=reached_of(stream).frontier,
        verdict=verdict,
        reason=reason,
        repairs=written.repairs,
        version=plan.version,
        capture_id=capture_id_of(stream),
    )


def _require(plan: Plan, mode: Mode) -> None:
    modes = plan.manifest.modes
    if mode not in modes:
        there = f"its modes are {', '.join(modes)}" if modes else "it has no modes"
        raise PipelineError(
            f"pipeline {plan.name} has no mode {mode}: {there}; name it under `modes` in its "
            "pipeline.toml, and start it"
        )
    if plan.time is None:
        raise PipelineError(
            f"pipeline {plan.name} has no `time`, so that its hourly table has no windows to "
            "compare: name a column of the result under `time` in its pipeline.toml"
        )


def _hindrance(
    settings: Settings, plan: Plan, written: WrittenWindow, stream: DeltaTable
) -> tuple[Verdict | None, str]:
    """A run from before the initial snapshot may have read rows that have changed until then."""
    marker_lsn = written.last_cut.marker_lsn
    history = open_table(settings.table_uri(plan.history))
    tables = {"the stream": stream, "the source's history": history}
    reason = _lag(tables, marker_lsn, "the cut")
    if not reason:
        looked_up_at = _last_look_up(stream, quoted(plan.time), written.run.window, marker_lsn)
        reason = _lag(tables, looked_up_at, "the window's last raced look-up")
    if reason:
        return Verdict.WAITING, reason
    cut, began = written.run.cut, _snapshot_taken_at(settings, plan, history)
    if began is not None and cut.taken_at < began:
        return Verdict.NOT_COVERED, (
            f"the hourly run read the database at {cut.taken_at.isoformat()}, before change "
            f"capture took its snapshot, at {began.isoformat()}: run the window again to compare it"
        )
    return None, ""


def _snapshot_taken_at(settings: Settings, plan: Plan, history: DeltaTable) -> datetime | None:
    """When the rows that the pipeline's streams begin with were read; None when there were none."""
    side = read_side_snapshots(settings, plan.source).first_of(plan.captured)
    if side is not None:
        return side.taken_at
    return HistoryReader(history, plan.tables).first_of_snapshot()


def _other_version(run: RunCommit, stream: DeltaTable, version: str) -> str:
    """Which side is of another version of the pipeline than its folder; empty when none is."""
    of_run = run.pipeline_version or VERSION_OF_BEFORE
    if of_run != version:
        return (
            f"the hourly run is of version {of_run} of the pipeline, and its folder is of version "
            f"{version}: run the window again"
        )
    of_stream = pipeline_version_of(stream)
    if of_stream != version:
        return (
            f"the stream's table is of version {of_stream} of the pipeline, and its folder is of "
            f"version {version}: rebuild it with `lockstep stream rebuild`, or start the stream, "
            "which says what to do"
        )
    return ""


def _lag(tables: Mapping[str, DeltaTable], position: int, what: str) -> str:
    """Which of the tables has not reached the position (an LSN); empty when none lags."""
    for name, table in tables.items():
        frontier = reached_of(table).frontier
        if frontier is None or frontier < position:
            reached = "nothing" if frontier is None else f"LSN {frontier}"
            return f"{name} has reached {reached}, not yet {what} at {position}"
    return ""


def _last_look_up(stream: DeltaTable, time: str, window: Window, marker_lsn: int) -> int:
    """Where in the database's log the last raced look-up that is judged was made; 0 without any.

    What such a look-up saw may have been committed after the cut, so it is proved or disproved only
    when stream and history have come as far as the look-up. Changes after the cut are not judged,
    or a window would wait for as long as changes come. A row that was gone when it was looked up
    has no time, so it is of any window.
    """
    if "look_up" not in {field.name for field in stream.schema().fields}:
        return 0
    query = (
        "SELECT max(look_up['wal_lsn']) AS wal_lsn FROM changes WHERE is_raced "  # noqa: S608
        f"AND commit_lsn <= {marker_lsn} "
        f"AND ({time} IS NULL OR ({of_time(window, time)}))"
    )
    (found,) = run_query(query, {"changes": stream}).read_all().to_pylist()
    return found["wal_lsn"] or 0
