"""The first rows that a query gives, as an hourly run would make them. Writes nothing."""

from typing import TYPE_CHECKING, Any

from lockstep.batch.reading import reading
from lockstep.batch.work import work_on
from lockstep.model.modes import ReadMode
from lockstep.model.window import Window
from lockstep.pipeline.names import quoted
from lockstep.pipeline.plan import Plan
from lockstep.pipeline.project import Pipeline
from lockstep.settings import Settings
from lockstep.spark import FEW_ROWS

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
    with reading(spark, settings, pipeline, window) as rows:
        plan = rows.plan
        order = dict.fromkeys([*([plan.time] if plan.time else []), *plan.key])
        first = rows.outputs(ReadMode.TABLES).orderBy(*map(quoted, order)).limit(limit)
        return first.toArrow().to_pylist()


def preview_named(name: str, start: str, end: str, limit: int) -> tuple[Plan, list[dict[str, Any]]]:
    """Preview a pipeline's rows in the window of ISO 8601 text, in a session of its own.

    Raises LockstepError: what is wrong with project, window or database before Spark is started.
    """
    reads = [ReadMode.TABLES]
    with work_on(name, start, end, doing="preview", reads=reads, rows=FEW_ROWS) as work:
        found = preview(work.spark, work.settings, work.pipeline, work.window, limit)
        return work.plan, found
