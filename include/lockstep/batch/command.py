"""The hourly run as a command: what `lockstep pipeline run` and the spark-submit job both do."""

from rich.console import Console

from lockstep.batch.run import run_pipeline
from lockstep.batch.work import work_on
from lockstep.model.modes import ReadMode


def run_named(name: str, start: str, end: str, read: ReadMode) -> None:
    """Run the pipeline for the window [start, end) of ISO 8601 text, and print what was done.

    Both are empty for a pipeline without a time. Raises LockstepError: what is wrong with project,
    window, lakehouse or database before Spark is started, the others as run_pipeline says.
    """
    with work_on(name, start, end, doing="hourly run", reads=[read]) as work:
        finished = run_pipeline(work.spark, work.settings, work.pipeline, work.window, read)
        commit = finished.commit
        Console(soft_wrap=True, highlight=False).print(
            f"{commit.orders_at_cut:,} rows of {work.window or 'all times'} in "
            f"{finished.seconds:.1f} s (read: {commit.read_mode})\n"
            f"table: {work.settings.table_uri(work.plan.hourly_table)}\n"
            f"cut: snapshot {commit.cut.snapshot}, marker LSN {commit.cut.marker_lsn}, "
            f"run {commit.cut.run_id}",
            markup=False,
        )
