"""The first rows that a query gives, as an hourly run would make them. Writes nothing."""

from typing import TYPE_CHECKING, Any

from lockstep.batch.pipeline_preflight import check_ready, require_window, window_of
from lockstep.batch.pipeline_rows import in_window
from lockstep.batch.pipeline_run import bind_tables
from lockstep.batch.spark_errors import spark_failures
from lockstep.cdc.cuts import exported_snapshot
from lockstep.enrich.plans import run
from lockstep.model.modes import ReadMode
from lockstep.model.window import Window
from lockstep.pipeline.names import quoted
from lockstep.pipeline.plan import Plan, plan_of
from lockstep.pipeline.project import Pipeline, read_project
from lockstep.pipeline.query.at import at_snapshot
from lockstep.settings import Settings
from lockstep.sources.postgres import connect_to
from lockstep.sources.source_database import reader_of
from lockstep.sources.source_tables import SourceReader
from lockstep.spark import FEW_ROWS, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def preview(
    spark: "SparkSession",
    settings: Settings,
    pipeline: Pipeline,
    window: Window | None,
    limit: int,
) -> list[dict[str, Any]]:
    """At most `limit` rows of the window, by time and key; of all rows without one.

    result.lock need not be there yet. Raises as run_pipeline does.
    """
    plan, target = plan_of(pipeline), reader_of(settings, pipeline.source)
    require_window(plan, window)
    session = spark.newSession()
    with (
        spark_failures(settings, str(target)),
        connect_to(target) as exporting,
        exported_snapshot(exporting) as exported,
    ):
        reader = SourceReader(session, target, exported)
        bind_tables(reader, plan, window, settings.batch_slice_rows)
        rows = in_window(run(session, at_snapshot(plan.query)), plan, window)
        order = dict.fromkeys([*([plan.time] if plan.time else []), *plan.key])
        first = rows.select(*map(quoted, plan.outputs)).orderBy(*map(quoted, order)).limit(limit)
        return first.toArrow().to_pylist()


def preview_named(name: str, start: str, end: str, limit: int) -> tuple[Plan, list[dict[str, Any]]]:
    """Preview a pipeline's rows in the window of ISO 8601 text, in a session of its own.

    Raises LockstepError: what is wrong with project, window or database before Spark is started.
    """
    settings = Settings.load()
    pipeline = read_project(settings.project).pipeline(name)
    plan = plan_of(pipeline)
    window = window_of(plan, start, end)
    check_ready(settings, pipeline, plan, ReadMode.TABLES)
    spark = spark_session(settings, f"lockstep preview of {name}", FEW_ROWS)
    try:
        return plan, preview(spark, settings, pipeline, window, limit)
    finally:
        spark.stop()
