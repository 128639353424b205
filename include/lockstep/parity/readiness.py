"""Whether a window can be compared with a stream yet. Reads Delta's logs; starts no Spark."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from deltalake import DeltaTable

from lockstep.cdc.cuts import Cut
from lockstep.cdc.run_commits import RepairCommit, RunCommit
from lockstep.model.modes import StreamMode
from lockstep.model.verdict import Verdict
from lockstep.model.window import Window
from lockstep.pipeline.plan import Plan
from lockstep.pipeline.row_keys import quoted
from lockstep.pizzeria import (
    ORDERS_ENRICHED_BATCH,
    SOURCE_HISTORY,
    VERSION_OF_BEFORE,
    change_log_table,
)
from lockstep.settings import Settings
from lockstep.sinks.append_log import reached_of
from lockstep.sinks.window_conditions import of_time
from lockstep.sources import change_topic
from lockstep.sources.delta import open_table, run_query
from lockstep.sources.hourly_runs import WrittenWindow, written_by


@dataclass(frozen=True)
class Readiness:
    """Both sides at one version each, and what stands against comparing them.

    repairs: of the run's rows, the oldest first; a row is compared at its last repair's cut.

    verdict: waiting, not_covered, or None when nothing stands against it; reason says why.
    frontier: the stream's; None before its first commit.
    version: of the pipeline that both are of.
    capture_began: when change capture began; what was committed before is in its snapshot.
    """

    run: RunCommit
    batch_version: int
    stream_version: int
    frontier: int | None
    capture_began: datetime | None
    verdict: Verdict | None
    reason: str
    repairs: tuple[RepairCommit, ...] = ()
    version: str = VERSION_OF_BEFORE

    def cuts_of_repaired(self) -> dict[int, Cut]:
        """The cut of each row that was repaired: its last repair's."""
        return {id_: repair.cut for repair in self.repairs for id_ in repair.order_ids}


def modes_with_tables(settings: Settings) -> list[StreamMode]:
    """The modes that ever ran."""
    return [
        mode
        for mode in StreamMode
        if DeltaTable.is_deltatable(settings.table_uri(change_log_table(mode)))
    ]


def readiness(settings: Settings, plan: Plan, window: Window, mode: StreamMode) -> Readiness:
    """What stands against comparing the window with the mode, by both tables as they are now.

    Raises WindowNotWrittenError when no run wrote the window; LakehouseError when a table is not
    there; StreamError when Kafka does not say when change capture began.
    """
    batch = open_table(settings.table_uri(ORDERS_ENRICHED_BATCH))
    written = written_by(batch, window)
    stream = open_table(settings.table_uri(change_log_table(mode)))
    frontier = reached_of(stream).frontier
    began = change_topic.began_at(settings)
    verdict, reason = _hindrance(settings, plan, written, stream, began)
    if other := _other_version(written.run, stream, mode, plan.version):
        verdict, reason = Verdict.NOT_COVERED, other
    return Readiness(
        run=written.run,
        batch_version=batch.version(),
        stream_version=stream.version(),
        frontier=frontier,
        capture_began=began,
        verdict=verdict,
        reason=reason,
        repairs=written.repairs,
        version=plan.version,
    )


def _hindrance(
    settings: Settings,
    plan: Plan,
    written: WrittenWindow,
    stream: DeltaTable,
    began: datetime | None,
) -> tuple[Verdict | None, str]:
    cut = written.run.cut
    if began is None:
        return Verdict.WAITING, "change capture has not begun"
    if cut.taken_at < began:
        why = (
            f"the hourly run read the database at {cut.taken_at.isoformat()}, before change "
            f"capture began at {began.isoformat()}: run the window again to compare it"
        )
        return Verdict.NOT_COVERED, why
    marker_lsn = written.last_cut.marker_lsn
    history = open_table(settings.table_uri(SOURCE_HISTORY))
    tables = {"the stream": stream, "the source's history": history}
    reason = _lag(tables, marker_lsn, "the cut")
    if not reason:
        looked_up_at = _last_look_up(stream, quoted(plan.time), written.run.window, marker_lsn)
        reason = _lag(tables, looked_up_at, "the window's last raced look-up")
    return (Verdict.WAITING, reason) if reason else (None, "")


def _other_version(run: RunCommit, stream: DeltaTable, mode: StreamMode, version: str) -> str:
    """Which side is of another version of the pipeline than its folder; empty when none is."""
    of_run = run.pipeline_version or VERSION_OF_BEFORE
    if of_run != version:
        return (
            f"the hourly run is of version {of_run} of the pipeline, and its folder is of version "
            f"{version}: run the window again"
        )
    of_stream = stream.metadata().description or VERSION_OF_BEFORE
    if of_stream != version:
        return (
            f"the stream's table is of version {of_stream} of the pipeline, and its folder is of "
            f"version {version}: `lockstep stream rebuild {mode}`"
        )
    return ""


def _lag(tables: Mapping[str, DeltaTable], position: int, what: str) -> str:
    """Which of the tables has not reached the position (an LSN); empty when none lags."""
    for name, table in tables.items():
        frontier = reached_of(table).frontier
        if frontier is None or frontier < position:
            return f"{name} has reached LSN {frontier}, not yet {what} at {position}"
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
