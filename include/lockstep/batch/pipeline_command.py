"""A pipeline's hourly run as a command: what `lockstep pipeline run` does."""

from lockstep.batch.command import report
from lockstep.batch.pipeline_preflight import check_ready, window_of
from lockstep.batch.pipeline_run import run_pipeline
from lockstep.model.modes import ReadMode
from lockstep.pipeline.plan import plan_of
from lockstep.pipeline.project import read_project
from lockstep.settings import Settings
from lockstep.sources.hourly_runs import rows_of_newest_run
from lockstep.spark import spark_session


def run_named(name: str, start: str, end: str, read: ReadMode) -> None:
    """Run the pipeline for the window [start, end) of ISO 8601 text, and print what was done.

    Both are empty for a pipeline without a time. Raises LockstepError: what is wrong with project,
    window, lakehouse or database before Spark is started, the others as run_pipeline says.
    """
    settings = Settings.load()
    pipeline = read_project(settings.project).pipeline(name)
    plan = plan_of(pipeline)
    window = window_of(plan, start, end)
    check_ready(settings, pipeline, plan, read)
    rows = rows_of_newest_run(settings.of(name))
    spark = spark_session(settings, f"lockstep hourly run of {name} {window or ''}", rows)
    try:
        finished = run_pipeline(spark, settings, pipeline, window, read)
        rows = f"{finished.commit.orders_at_cut:,} rows of {window or 'all times'}"
        report(finished.commit, finished.seconds, rows, settings.table_uri(plan.hourly_table))
    finally:
        spark.stop()
