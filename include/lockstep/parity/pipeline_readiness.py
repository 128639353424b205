"""Whether a window of a pipeline can be compared with a mode yet. Reads Delta; starts no Spark."""

from collections.abc import Mapping
from dataclasses import dataclass

from deltalake import DeltaTable

from lockstep.cdc.run_commits import RunCommit
from lockstep.model.verdict import Verdict
from lockstep.model.window import Window
from lockstep.parity.versions import HistoryReader
from lockstep.pipeline.errors import PipelineError
from lockstep.pipeline.modes import Mode
from lockstep.pipeline.plan import Plan
from lockstep.settings import Settings
from lockstep.sinks.append_log import reached_of
from lockstep.sources.delta import open_table
from lockstep.sources.hourly_runs import written_by


@dataclass(frozen=True)
class PipelineReadiness:
    """The three tables at one version each, and what stands against comparing them.

    run: that wrote the window. verdict: waiting, not_covered, or None when nothing stands against
    it; reason says why. frontier: the change log's; None before its first commit.
    """

    run: RunCommit
    batch: DeltaTable
    stream: DeltaTable
    history: DeltaTable
    frontier: int | None
    verdict: Verdict | None
    reason: str


def pipeline_readiness(
    settings: Settings, plan: Plan, mode: Mode, window: Window
) -> PipelineReadiness:
    """Raises PipelineError when the pipeline has no such mode, or no windows; LakehouseError when a
    table is not there; WindowNotWrittenError when no run wrote the window.
    """
    _require(plan, mode)
    batch = open_table(settings.table_uri(plan.hourly_table))
    run = written_by(batch, window).run
    stream = open_table(settings.table_uri(plan.change_log(mode)))
    history = open_table(settings.table_uri(plan.history))
    verdict, reason = _hindrance(plan, run, stream, history)
    return PipelineReadiness(
        run=run,
        batch=batch,
        stream=stream,
        history=history,
        frontier=reached_of(stream).frontier,
        verdict=verdict,
        reason=reason,
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
    plan: Plan, run: RunCommit, stream: DeltaTable, history: DeltaTable
) -> tuple[Verdict | None, str]:
    """A run from before the initial snapshot may have read rows that have changed until then."""
    if reason := _other_version(plan, run, stream):
        return Verdict.NOT_COVERED, reason
    marker_lsn = run.cut.marker_lsn
    if reason := _lag({"the stream": stream, "the source's history": history}, marker_lsn):
        return Verdict.WAITING, reason
    began = HistoryReader(history, plan.tables).first_of_snapshot()
    if began is not None and run.cut.taken_at < began:
        return Verdict.NOT_COVERED, (
            f"the hourly run read the database at {run.cut.taken_at.isoformat()}, before change "
            f"capture took its snapshot, at {began.isoformat()}: run the window again to compare it"
        )
    return None, ""


def _other_version(plan: Plan, run: RunCommit, stream: DeltaTable) -> str:
    """Which side is of another version of the pipeline than its folder; empty when none is."""
    if run.pipeline_version != plan.version:
        return (
            f"the hourly run is of version {run.pipeline_version} of the pipeline, and its folder "
            f"of version {plan.version}: run the window again"
        )
    version = stream.metadata().description
    if version != plan.version:
        return (
            f"the stream's table is of version {version} of the pipeline, and its folder of "
            f"version {plan.version}: start the stream, which says what to do"
        )
    return ""


def _lag(tables: Mapping[str, DeltaTable], marker_lsn: int) -> str:
    """Which of the tables has not reached the cut; empty when none lags."""
    for name, table in tables.items():
        frontier = reached_of(table).frontier
        if frontier is None or frontier < marker_lsn:
            reached = "nothing" if frontier is None else f"LSN {frontier}"
            return f"{name} has reached {reached}, not yet the cut at LSN {marker_lsn}"
    return ""
