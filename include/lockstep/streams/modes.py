"""Which parts make a mode: its sink, its decoder, and its records' way through Spark before."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

from lockstep.cdc.records import RecordDecoder
from lockstep.cdc.transactions import OffsetRange
from lockstep.model.modes import HISTORY, StreamMode
from lockstep.pipeline.catalog import Catalog, TableName
from lockstep.pipeline.errors import PipelineError
from lockstep.pipeline.modes import Mode
from lockstep.pipeline.plan import Plan, PlannedTable, captured_tables, plan_of, plans_of
from lockstep.pipeline.project import Project, read_project
from lockstep.pipeline.version import VERSION_OF_BEFORE
from lockstep.settings import Settings
from lockstep.sinks.append_log import AppendLog
from lockstep.sinks.local_lakehouse import local_folder
from lockstep.sinks.table_of_before import require_moved
from lockstep.sources.given_up import given_up_ranges
from lockstep.sources.postgres import RoleConnection
from lockstep.sources.row_lookup import RowLookup
from lockstep.sources.side_snapshots import SideSnapshots, read_side_snapshots
from lockstep.sources.source_database import reader
from lockstep.streams import published
from lockstep.streams.as_of_commit import Evaluation, TemporalSink, catch_up
from lockstep.streams.beginning import begin
from lockstep.streams.fact_records import facts_decoder
from lockstep.streams.given_up import GivenUp
from lockstep.streams.history_tables import HistoryTables
from lockstep.streams.kept_tables import KeptTable, kept_of
from lockstep.streams.lookup import LookupEnrichment
from lockstep.streams.needed_versions import NeededVersions
from lockstep.streams.sink import ChangeLogSink, Enrichment, Sink, open_change_log
from lockstep.streams.source_history import SourceHistorySink, history_log
from lockstep.streams.stored_history import StoredHistory
from lockstep.streams.table_rows import rows_decoder
from lockstep.streams.versions import SharedVersions
from lockstep.supervise.folder import mode_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOINED = (StreamMode.TEMPORAL, StreamMode.TRANSACTION)
"""The modes that run the pipeline's query, over the rows valid at each fact's commit."""


@dataclass(frozen=True)
class Modes:
    """The modes of a pipeline, and the writer of its source's history.

    settings: where their tables are. catalog: the source's. captured: what the history keeps.
    snapshots: the source's side snapshots. reader: the role that looks rows up; raises
    ConfigurationError without its password. look: the stretches of the change topic that are given
    up now. versions: what the process's streams keep in memory, each named by the table that it
    writes.
    """

    settings: Settings
    plan: Plan
    catalog: Catalog
    captured: Mapping[TableName, PlannedTable]
    snapshots: SideSnapshots
    reader: Callable[[], RoleConnection]
    look: Callable[[], Sequence[OffsetRange]]
    versions: SharedVersions

    @classmethod
    def of(
        cls,
        settings: Settings,
        unread: Collection[tuple[TableName, str]] = (),
        versions: SharedVersions | None = None,
    ) -> "Modes":
        """Those of the pipeline that is worked for.

        unread: columns that the history is to leave out, since they cannot be read. versions: of
        other pipelines' streams in the process. Raises PipelineError and ManifestError: what is
        wrong with the folders.
        """
        project = read_project(settings.project)
        plan = plan_of(project.pipeline(settings.names.pipeline))
        snapshots = read_side_snapshots(settings, plan.source)
        return cls(
            settings,
            plan,
            project.sources[plan.source].catalog,
            _captured(project, plan, snapshots, unread),
            snapshots,
            partial(reader, settings),
            partial(given_up_ranges, settings),
            versions or SharedVersions(),
        )

    def table_of(self, mode: str) -> str:
        """The path below the lakehouse of the table that a mode, or the history, writes."""
        return self.plan.history if mode == HISTORY else self.plan.change_log(Mode(mode))

    def make_table(self, mode: str) -> None:
        """Make the table that the mode writes where there is none.

        Raises LakehouseError, also while an earlier version's table is not moved, and PipelineError
        for a mode that the pipeline does not have.
        """
        if mode != HISTORY and mode not in self.plan.manifest.modes:
            known = ", ".join(self.plan.manifest.modes) or "none"
            raise PipelineError(
                f"pipeline {self.plan.name} has no mode {mode}: `modes` in its manifest: {known}"
            )
        require_moved(local_folder(self.settings.lakehouse_uri), self.table_of(mode))
        if mode == HISTORY:
            self._history_log(self.settings, None)
        else:
            self.change_log(self.settings, mode, None)

    def sink_of(
        self,
        spark: "SparkSession",
        mode: str,
        capture_id: int,
        into: Settings | None = None,
        progressed: Callable[[], None] = lambda: None,
    ) -> Sink:
        """The sink of a mode, or of the history, its table opened. Raises LockstepError.

        A history has all that it is to keep then. capture_id: of the capture whose changes it will
        be given, as streams/identity.py has it. into: where that table is, for a rebuild; what the
        mode reads is in its usual place. progressed: called now and then while much is read.
        """
        target = into or self.settings
        if mode == HISTORY:
            return self._history(target, capture_id, progressed)
        log = self.change_log(target, mode, capture_id)
        self._require_version(log, mode)
        if mode in JOINED:
            return self._joined(spark, log, mode)
        return ChangeLogSink(log, self._enrichment(spark, mode), self.plan.key)

    @property
    def kept(self) -> Mapping[TableName, KeptTable]:
        """What the source's history keeps of its tables."""
        return kept_of(self.captured.values(), self.snapshots)

    def begin(
        self,
        mode: str,
        sink: Sink,
        progressed: Callable[[], None] = lambda: None,
    ) -> None:
        """Write the first rows of a new table whose pipeline begins with a side snapshot.

        progressed: as in sink_of. Raises SideSnapshotMissingError for a pipeline that
        reads a table whose rows are nowhere, StreamError when the snapshot's topic is not whole.
        """
        if mode == HISTORY or sink.reached.frontier is not None:
            return
        snapshot = self.snapshots.first_of(self.plan.captured)
        if snapshot is not None:
            decoder = self.decoder_of(mode).of_topic(self.snapshots.topic(snapshot))
            begin(self.settings, sink, snapshot, decoder, progressed)

    def given_up(self, mode: str) -> GivenUp:
        """What is given up of the change topic; it decodes the mode's records.

        Raises StreamError when Kafka does not answer.
        """
        return GivenUp(self.look, self.decoder_of(mode))

    def decoder_of(self, mode: str) -> RecordDecoder:
        """What decodes the mode's records."""
        if mode == HISTORY:
            return rows_decoder(self.plan.change_topic, self.captured, keeps_texts=True)
        return self._rows_decoder if mode in JOINED else self._facts_decoder

    @property
    def strictest_decoder(self) -> RecordDecoder:
        """It reads each table captured, and refuses what any mode, or the history, cannot read."""
        return facts_decoder(self.plan, self.captured)

    def _require_version(self, log: AppendLog, mode: str) -> None:
        version = log.description or VERSION_OF_BEFORE
        if version != self.plan.version:
            raise PipelineError(
                f"{log.uri} is of version {version} of pipeline {self.plan.name}, and its folder "
                f"is of version {self.plan.version}: its query, key, time or the columns that it "
                f"reads have changed: {self.settings.command(f'stream rebuild {mode}')} makes the "
                "table again"
            )

    @cached_property
    def _rows_decoder(self) -> RecordDecoder:
        return rows_decoder(self.plan.change_topic, self.plan.tables)

    @cached_property
    def _facts_decoder(self) -> RecordDecoder:
        fact = self.plan.fact
        return facts_decoder(self.plan, {**self.captured, fact.name: fact})

    def change_log(self, target: Settings, mode: str, capture_id: int | None) -> AppendLog:
        """The mode's change log in the lakehouse of these settings. Raises LakehouseError."""
        return open_change_log(target, self.plan, Mode(mode), capture_id)

    def _history_log(self, target: Settings, capture_id: int | None) -> AppendLog:
        uri, kept_hours = target.table_uri(self.plan.history), target.stream_versions_kept_hours
        of_first = {
            name: table
            for name, table in self.captured.items()
            if self.snapshots.of_late(name) is None
        }
        return history_log(uri, of_first, kept_hours, capture_id, target.stream_versions_max)

    def _history(
        self, target: Settings, capture_id: int, progressed: Callable[[], None]
    ) -> SourceHistorySink:
        log = self._history_log(target, capture_id)
        HistoryTables(
            self.settings,
            self.captured,
            self.snapshots,
            self.given_up(HISTORY),
            self.decoder_of(HISTORY),
            mode_folder(self.settings, HISTORY) / "tables",
            progressed,
        ).complete(log)
        since = {name: one.since for name, one in self.kept.items()}
        return SourceHistorySink(log, self.captured, since)

    def require_history(self) -> StoredHistory:
        """The source's history; raises PipelineError unless it keeps the pipeline's tables."""
        history = StoredHistory(self.settings.table_uri(self.plan.history))
        history.require(kept_of(self.plan.tables.values(), self.snapshots))
        return history

    def _joined(self, spark: "SparkSession", log: AppendLog, mode: str) -> TemporalSink:
        history, name = self.require_history(), self.table_of(mode)
        needed = NeededVersions(self.plan, history, log.reached.frontier, name, self.versions)
        sink = TemporalSink(log, self.plan, needed, Evaluation(spark, self.plan))
        catch_up(self.settings, needed, sink.wanted, self.given_up(StreamMode.TEMPORAL))
        return sink

    def _enrichment(self, spark: "SparkSession", mode: str) -> Enrichment:
        match mode:
            case StreamMode.OUTBOX:
                return published.outbox(self.plan)
            case StreamMode.MESSAGE:
                return published.message(self.plan)
            case StreamMode.LOOKUP:
                rows = RowLookup(spark, self.catalog, self.plan, self.reader)
                return LookupEnrichment(self.plan, rows.rows)
        raise ValueError(f"{mode} is no mode of a stream")


def _captured(
    project: Project,
    plan: Plan,
    snapshots: SideSnapshots,
    unread: Collection[tuple[TableName, str]],
) -> dict[TableName, PlannedTable]:
    """Without late tables whose rows are not there yet."""
    catalog = project.sources[plan.source].catalog
    captured = captured_tables(plans_of(project, plan.source), catalog, unread)
    return {name: table for name, table in captured.items() if snapshots.has(name)}
