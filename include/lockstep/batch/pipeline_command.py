"""A pipeline's hourly run as a command: what `lockstep pipeline run` does."""

from lockstep.batch.command import report
from lockstep.batch.pipeline_run import run_pipeline
from lockstep.batch.reading import work_on
from lockstep.model.modes import ReadMode


def run_named(name: str, start: str, end: str, read: ReadMode) -> None:
    """Run the pipeline for the window [start, end) of ISO 8601 text, and print what was done.

    Both are empty for a pipeline without a time. Raises LockstepError: what is wrong with project,
    window, lakehouse or database before Spark is started, the others as run_pipeline says.
    """
    with work_on(name, start, end, doing="hourly run", reads=[read]) as work:
        finished = run_pipeline(work.spark, work.settings, work.pipeline, work.window, read)
        rows = f"{finished.commit.orders_at_cut:,} rows of {work.window or 'all times'}"
        table = work.settings.table_uri(work.plan.hourly_table)
        report(finished.commit, finished.seconds, rows, table)
