"""One hourly run, step by step.

The order of the steps is the run's guarantee: the lock first (no other run comes between),
the snapshot before the marker (so the marker comes later in the log than all the run sees), and
one commit at the end (so a run killed anywhere has changed nothing).
"""

import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockstep.batch.pipeline_rows import with_cut
from lockstep.batch.rows import from_tables, from_view
from lockstep.batch.spark_errors import spark_failures
from lockstep.cdc.cuts import DatabaseSnapshot, ExportedSnapshot, exported_snapshot, mark_cut
from lockstep.cdc.run_commits import RunCommit
from lockstep.model.modes import ReadMode
from lockstep.model.window import Window
from lockstep.pipeline.plan import Plan, plan_named
from lockstep.pipeline.result_tables import HOURLY_COLUMNS
from lockstep.settings import Settings
from lockstep.sinks.hourly_table import replace_window
from lockstep.sinks.local_lakehouse import sole_writer
from lockstep.sources.origin import origin_column
from lockstep.sources.postgres import connect_to
from lockstep.sources.postgres_snapshot import SnapshotReader, count_facts, small_tables
from lockstep.sources.source_database import reader
from lockstep.sources.window_slices import slice_window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class BatchRun:
    """A finished run: what its commit says, and how long it took (without session start)."""

    commit: RunCommit
    seconds: float


def run_window(
    spark: "SparkSession", settings: Settings, window: Window, read_mode: ReadMode
) -> BatchRun:
    """Enrich the window's facts and make them the table's rows of that window.

    Running it again replaces the same rows. A failure, whatever it is, leaves the table as it was.
    Raises PipelineError, PostgresUnavailableError, LakehouseError, WriterBusyError.
    """
    started = time.monotonic()
    plan = plan_named(settings.project, settings.names.pipeline)
    # Step 1: be the only writer, with room to write.
    # Step 2: export the snapshot that everything below reads.
    with (
        sole_writer(settings, settings.names.hourly_table),
        connect_to(reader(settings)) as exporting,
        spark_failures(settings),
        exported_snapshot(exporting) as exported,
    ):
        # Step 3: mark the cut in the database's log.
        with connect_to(reader(settings)) as marking:
            cut = mark_cut(marking, exported, run_id=str(uuid.uuid4()))
        # Step 4: read under the snapshot, enrich, and replace the window in one commit.
        enriched, count = _enriched(spark, settings, plan, exported, window, read_mode)
        commit = RunCommit(window, read_mode, count, cut, plan.version)
        table_uri = settings.table_uri(settings.names.hourly_table)
        columns = {**plan.result.columns, **HOURLY_COLUMNS, **plan.origin_columns}
        rows = with_cut(enriched, plan, columns, cut)
        replace_window(rows, table_uri, plan.time, window, commit.as_json(), count)
    return BatchRun(commit, time.monotonic() - started)


def _enriched(
    spark: "SparkSession",
    settings: Settings,
    plan: Plan,
    exported: ExportedSnapshot,
    window: Window,
    read_mode: ReadMode,
) -> tuple["DataFrame", int]:
    counts = count_facts(exported, plan, window)
    rows = sum(slot.rows for slot in counts)
    slices = slice_window(
        window,
        counts,
        rows_max=settings.batch_slice_rows,
        slices_min=spark.sparkContext.defaultParallelism,
    )
    reader = SnapshotReader(spark, settings, exported, plan)
    origin = origin_column(DatabaseSnapshot.parse(exported.snapshot), plan)
    if read_mode is ReadMode.VIEW:
        return from_view(reader.view(slices), plan.result.columns, origin), rows
    tables = reader.tables(window, slices)
    return from_tables(spark, plan, tables, rows, small_tables(plan), origin), rows
