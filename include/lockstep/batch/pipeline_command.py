"""A pipeline's hourly run as a command: what `lockstep pipeline run` does."""

from rich.console import Console

from lockstep.batch.pipeline_preflight import check_ready, window_of
from lockstep.batch.pipeline_run import PipelineRun, run_pipeline
from lockstep.pipeline.plan import Plan, plan_of
from lockstep.pipeline.project import read_project
from lockstep.settings import Settings
from lockstep.spark import spark_session


def run_named(name: str, start: str, end: str) -> None:
    """Run the pipeline for the window [start, end) of ISO 8601 text, and print what was done.

    Both are empty for a pipeline without a time. Raises LockstepError: what is wrong with project,
    window, lakehouse or database before Spark is started, the others as run_pipeline says.
    """
    settings = Settings.load()
    pipeline = read_project(settings.project).pipeline(name)
    plan = plan_of(pipeline)
    window = window_of(plan, start, end)
    check_ready(settings, pipeline, plan)
    spark = spark_session(settings, f"lockstep hourly run of {name} {window or ''}")
    try:
        _report(run_pipeline(spark, settings, pipeline, window), plan, settings)
    finally:
        spark.stop()


def _report(finished: PipelineRun, plan: Plan, settings: Settings) -> None:
    commit = finished.commit
    Console(soft_wrap=True, highlight=False).print(
        f"{commit.orders_at_cut:,} rows of {commit.window or 'all times'} in "
        f"{finished.seconds:.1f} s (read: {commit.read_mode})\n"
        f"table: {settings.table_uri(plan.hourly_table)}\n"
        f"cut: snapshot {commit.cut.snapshot}, marker LSN {commit.cut.marker_lsn}, "
        f"run {commit.cut.run_id}",
        markup=False,
    )
