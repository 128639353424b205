"""One hourly run of a pipeline, step by step, whatever its tables and columns are.

The order of the steps is the run's guarantee, as in run.py: the lock first, the snapshot before the
marker, and one commit at the end, so that a run killed anywhere has changed nothing.
"""

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockstep.batch.errors import ResultRefusedError
from lockstep.batch.pipeline_preflight import require_window
from lockstep.batch.pipeline_rows import (
    hourly_columns,
    in_window,
    require_sound,
    with_cut,
    with_origin,
    with_read_origins,
)
from lockstep.batch.spark_errors import spark_failures
from lockstep.cdc.cuts import exported_snapshot, mark_cut
from lockstep.cdc.run_commits import RunCommit
from lockstep.enrich.plans import bind, result_schema, run
from lockstep.model.modes import ReadMode
from lockstep.model.window import Window
from lockstep.pipeline.names import cut_prefix, quoted
from lockstep.pipeline.plan import Plan, plan_of
from lockstep.pipeline.project import Pipeline
from lockstep.pipeline.query.at import at_snapshot
from lockstep.pipeline.result_tables import HOURLY_PARTITION
from lockstep.settings import Settings
from lockstep.sinks.hourly_table import replace_all, replace_window, require_columns
from lockstep.sinks.local_lakehouse import sole_writer
from lockstep.sources.postgres import connect_to
from lockstep.sources.source_database import reader_of
from lockstep.sources.source_tables import SourceReader
from lockstep.sources.source_view import ViewReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class PipelineRun:
    """A finished run: what its commit says, and how long it took (without session start)."""

    commit: RunCommit
    seconds: float


def run_pipeline(
    spark: "SparkSession",
    settings: Settings,
    pipeline: Pipeline,
    window: Window | None,
    read_mode: ReadMode = ReadMode.TABLES,
) -> PipelineRun:
    """Make the pipeline's result the hourly table's rows of the window.

    window: None for a pipeline without a time, whose table is replaced whole. read_mode: let the
    query make the rows, or the view of PostgreSQL that the manifest names. Running it again
    replaces the same rows. A failure, whatever it is, leaves the table as it was. Raises
    PipelineError, WindowError, ResultRefusedError, SourceValueError, PostgresUnavailableError,
    LakehouseError, WriterBusyError.
    """
    started = time.monotonic()
    plan, target = plan_of(pipeline), reader_of(settings, pipeline.source)
    require_window(plan, window)
    session = spark.newSession()
    columns = hourly_columns(plan, result_schema(session, plan))
    # Step 1: be the only writer, with room to write, of a table of these columns.
    with sole_writer(settings, plan.hourly_table), spark_failures(settings, str(target)):
        partition = HOURLY_PARTITION if plan.time else None
        require_columns(session, settings.table_uri(plan.hourly_table), columns, partition)
        # Step 2: export the snapshot that everything below reads.
        with connect_to(target) as exporting, exported_snapshot(exporting) as exported:
            # Step 3: mark the cut in the database's log.
            with connect_to(target) as marking:
                prefix = cut_prefix(pipeline.source.name)
                cut = mark_cut(marking, exported, str(uuid.uuid4()), prefix)
            # Step 4: read under the snapshot, and replace the rows in one commit.
            rewritten = at_snapshot(plan.query)
            slice_rows = settings.batch_slice_rows
            if read_mode is ReadMode.VIEW:
                found = ViewReader(session, target, exported).rows(plan, window, slice_rows)
            else:
                reader = SourceReader(session, target, exported)
                facts = bind_tables(reader, plan, window, slice_rows)
                found = with_read_origins(run(session, rewritten), facts, plan)
            with _kept(with_origin(found, plan, cut)) as result:
                rows = require_sound(plan, result, window, rewritten)
                commit = RunCommit(window, read_mode, rows, cut, plan.version)
                hourly = with_cut(in_window(result, plan, window), plan, columns, cut)
                _replace(hourly, settings, plan, commit)
    return PipelineRun(commit, time.monotonic() - started)


def bind_tables(
    reader: SourceReader, plan: Plan, window: Window | None, slice_rows: int
) -> "DataFrame":
    """Of the fact only the window's rows, where a column of it says which these are, and of the
    other tables what these lead to.

    Returns the fact's rows, with what sources/origin.py reads where they are of a window.
    """
    if plan.fact_time is None or window is None:
        whole = {name: reader.whole(table) for name, table in plan.tables.items()}
        for name, rows in whole.items():
            bind(rows, name)
        return whole[plan.fact.name]
    facts = reader.facts(plan, window, slice_rows)
    bind(facts.select(*map(quoted, plan.fact.columns)), plan.fact.name)
    for table in plan.tables.values():
        if table is not plan.fact:
            bind(reader.referred(plan, table, window), table.name)
    return facts


@contextmanager
def _kept(rows: "DataFrame") -> Iterator["DataFrame"]:
    """Rows that are checked and then written are computed once."""
    kept = rows.persist()
    try:
        yield kept
    finally:
        kept.unpersist()


def _replace(rows: "DataFrame", settings: Settings, plan: Plan, commit: RunCommit) -> None:
    from pyspark.errors import AnalysisException

    table_uri, metadata = settings.table_uri(plan.hourly_table), commit.as_json()
    try:
        if commit.window is None or plan.time is None:
            replace_all(rows, table_uri, metadata)
        else:
            count = commit.orders_at_cut
            replace_window(rows, table_uri, plan.time, commit.window, metadata, count)
    except AnalysisException as error:
        raise ResultRefusedError(
            f"pipeline {plan.name}: Delta cannot hold the result, and nothing was written: "
            f"{str(error).splitlines()[0]}"
        ) from error
