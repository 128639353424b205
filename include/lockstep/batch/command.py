"""The hourly run as a command: what `lockstep batch run` and the spark-submit job both do."""

from rich.console import Console

from lockstep.batch.preflight import check_ready
from lockstep.batch.run import run_window
from lockstep.cdc.run_commits import RunCommit
from lockstep.model.modes import ReadMode
from lockstep.model.window import Window
from lockstep.settings import Settings
from lockstep.sources.hourly_runs import rows_of_newest_run
from lockstep.sources.postgres_snapshot import has_reads
from lockstep.spark import spark_session


def run_chosen(start: str, end: str, read: ReadMode) -> None:
    """Run the pipeline that is worked for; without bounds where it has no time.

    Raises as run_named does.
    """
    from lockstep.batch.pipeline_command import run_named

    settings = Settings.load()
    if has_reads(settings):
        enrich_window(start, end, read)
    else:
        run_named(settings.names.pipeline, start, end, read)


def enrich_window(start: str, end: str, read: ReadMode) -> None:
    """Run the window [start, end) given as ISO 8601 text, and print what was done.

    Raises LockstepError: a bad window before anything is started, the others as run_window says.
    """
    window = Window.parse(start, end)
    settings = Settings.load()
    check_ready(settings, read)
    rows = rows_of_newest_run(settings)
    spark = spark_session(settings, f"lockstep hourly run {window}", rows)
    try:
        finished = run_window(spark, settings, window, read)
        rows = f"{finished.commit.orders_at_cut:,} rows of {window} enriched"
        report(
            finished.commit, finished.seconds, rows, settings.table_uri(settings.names.hourly_table)
        )
    finally:
        spark.stop()


def report(commit: RunCommit, seconds: float, what: str, table_uri: str) -> None:
    """Print what a run has done. what: the rows that it wrote, in words."""
    Console(soft_wrap=True, highlight=False).print(
        f"{what} in {seconds:.1f} s (read: {commit.read_mode})\n"
        f"table: {table_uri}\n"
        f"cut: snapshot {commit.cut.snapshot}, marker LSN {commit.cut.marker_lsn}, "
        f"run {commit.cut.run_id}",
        markup=False,
    )
