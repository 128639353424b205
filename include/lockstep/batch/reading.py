"""A pipeline's rows of a window as an hourly run would read them, for what writes nothing."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockstep.batch.pipeline_preflight import check_ready, require_window, window_of
from lockstep.batch.pipeline_rows import in_window
from lockstep.batch.pipeline_run import bind_tables
from lockstep.batch.spark_errors import spark_failures
from lockstep.cdc.cuts import ExportedSnapshot, exported_snapshot
from lockstep.enrich.plans import run
from lockstep.model.modes import ReadMode
from lockstep.model.window import Window
from lockstep.pipeline.names import quoted
from lockstep.pipeline.plan import Plan, plan_of
from lockstep.pipeline.project import Pipeline, read_project
from lockstep.pipeline.query.at import Rewritten, at_snapshot
from lockstep.settings import Settings
from lockstep.sources.hourly_runs import rows_of_newest_run
from lockstep.sources.postgres import RoleConnection, connect_to
from lockstep.sources.source_database import reader_of
from lockstep.sources.source_tables import SourceReader
from lockstep.sources.source_view import ViewReader
from lockstep.spark import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Work:
    """What a command is to do, once all that can be wrong before Spark is started is right."""

    spark: "SparkSession"
    settings: Settings
    pipeline: Pipeline
    plan: Plan
    window: Window | None


@contextmanager
def work_on(
    name: str,
    start: str,
    end: str,
    *,
    doing: str,
    reads: Sequence[ReadMode],
    rows: int | None = None,
) -> Iterator[Work]:
    """A pipeline and a window of ISO 8601 text, with a Spark session until the block ends.

    doing: what the session is called, before the pipeline's name. rows: how many the work is over,
    nearly; by default as many as the last hourly run wrote. Raises LockstepError.
    """
    settings = Settings.load()
    pipeline = read_project(settings.project).pipeline(name)
    plan = plan_of(pipeline)
    window = window_of(plan, start, end)
    for read in reads:
        check_ready(settings, pipeline, plan, read)
    if rows is None:
        rows = rows_of_newest_run(settings.of(name))
    spark = spark_session(settings, f"lockstep {doing} of {name} {window or ''}", rows)
    try:
        yield Work(spark, settings, pipeline, plan, window)
    finally:
        spark.stop()


@dataclass(frozen=True)
class Reading:
    """The rows of the window, of all without one, under one snapshot of the source's database.

    Both give plan.outputs, and raise as run_pipeline does in either read mode.
    """

    session: "SparkSession"
    plan: Plan
    window: Window | None
    slice_rows: int
    target: RoleConnection
    exported: ExportedSnapshot
    rewritten: Rewritten

    def by_query(self) -> "DataFrame":
        reader = SourceReader(self.session, self.target, self.exported)
        bind_tables(reader, self.plan, self.window, self.slice_rows)
        return self._outputs(run(self.session, self.rewritten))

    def by_view(self) -> "DataFrame":
        reader = ViewReader(self.session, self.target, self.exported)
        return self._outputs(reader.rows(self.plan, self.window, self.slice_rows))

    def _outputs(self, rows: "DataFrame") -> "DataFrame":
        outputs = rows.select(*map(quoted, self.plan.outputs))
        return in_window(outputs, self.plan, self.window)


@contextmanager
def reading(
    spark: "SparkSession", settings: Settings, pipeline: Pipeline, window: Window | None
) -> Iterator[Reading]:
    """Until the block ends the snapshot is held. Raises PipelineError, WindowError,
    PostgresUnavailableError."""
    plan, target = plan_of(pipeline), reader_of(settings, pipeline.source)
    require_window(plan, window)
    with (
        spark_failures(settings, str(target)),
        connect_to(target) as exporting,
        exported_snapshot(exporting) as exported,
    ):
        session, slice_rows = spark.newSession(), settings.batch_slice_rows
        rewritten = at_snapshot(plan.query)
        yield Reading(session, plan, window, slice_rows, target, exported, rewritten)
