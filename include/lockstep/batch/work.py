"""What a command over a pipeline's window begins with: the project, the checks, the session."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockstep.batch.preflight import check_readable, check_writable, window_of
from lockstep.model.modes import ReadMode
from lockstep.model.window import Window
from lockstep.pipeline.plan import Plan, plan_of
from lockstep.pipeline.project import Pipeline, read_project
from lockstep.settings import Settings
from lockstep.sources.hourly_runs import rows_of_newest_run
from lockstep.spark import stopped_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Work:
    """What a command is to do, once all that can be wrong before Spark is started is right."""

    spark: "SparkSession"
    settings: Settings
    pipeline: Pipeline
    plan: Plan
    window: Window | None


def planned(
    settings: Settings, name: str, start: str, end: str
) -> tuple[Pipeline, Plan, Window | None]:
    """A pipeline as its files are now, its plan, and the window. Raises LockstepError."""
    pipeline = read_project(settings.project).pipeline(name)
    plan = plan_of(pipeline)
    return pipeline, plan, window_of(plan, start, end)


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
    nearly; None of a run, which writes to the pipeline's hourly table: as many as the last one.
    Raises LockstepError.
    """
    settings = Settings.load()
    pipeline, plan, window = planned(settings, name, start, end)
    if rows is None:
        check_writable(settings, pipeline)
        rows = rows_of_newest_run(settings.of(name))
    for read in reads:
        check_readable(settings, pipeline, plan, read)
    with stopped_session(settings, f"lockstep {doing} of {name} {window or ''}", rows) as spark:
        yield Work(spark, settings, pipeline, plan, window)
