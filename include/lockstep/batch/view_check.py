"""Whether a pipeline's view and its query give the same rows of a window. Writes nothing.

Both are read under one snapshot of the database, as an hourly run reads either: so a difference is
one of their meaning, and never one of time.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lockstep.batch.reading import reading
from lockstep.batch.rows import require_sound
from lockstep.batch.work import work_on
from lockstep.model.modes import ReadMode
from lockstep.model.window import Window
from lockstep.pipeline.names import quoted
from lockstep.pipeline.plan import Plan
from lockstep.pipeline.project import Pipeline
from lockstep.pipeline.row_keys import Key
from lockstep.pipeline.tolerate import differing_places
from lockstep.settings import Settings
from lockstep.spark import FEW_ROWS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEPT_OF_A_KIND = 10
"""Differing rows shown, of each kind."""
_VIEW, _QUERY = "view", "query"


@dataclass(frozen=True)
class DifferentRow:
    """A row. view, query: its values there, of the columns that differ; None where it is not."""

    key: Key
    view: Mapping[str, Any] | None
    query: Mapping[str, Any] | None


@dataclass(frozen=True)
class ViewCheck:
    """rows: keys that either has in the window. only_in_view, only_in_query, differing: how many of
    them; examples: at most KEPT_OF_A_KIND of each, by key."""

    rows: int
    only_in_view: int
    only_in_query: int
    differing: int
    examples: tuple[DifferentRow, ...]

    @property
    def is_same(self) -> bool:
        return not (self.only_in_view or self.only_in_query or self.differing)


def check_view(
    spark: "SparkSession", settings: Settings, pipeline: Pipeline, window: Window | None
) -> ViewCheck:
    """Compare the rows that the view and the query have in the window; None for all rows.

    Raises as run_pipeline does in either read mode, also for a key that one of them gives twice.
    """
    with reading(spark, settings, pipeline, window) as rows:
        kept = [rows.outputs(ReadMode.VIEW).persist(), rows.outputs(ReadMode.TABLES).persist()]
        try:
            for side in kept:
                require_sound(rows.plan, side, window, rows.rewritten)
            return _compared(rows.plan, *kept)
        finally:
            for side in kept:
                side.unpersist()


def check_named(name: str, start: str, end: str) -> tuple[Plan, ViewCheck]:
    """Check a pipeline's view in the window of ISO 8601 text, in a session of its own.

    Raises LockstepError: what is wrong with project, window or database before Spark is started,
    the others as check_view does.
    """
    reads = [ReadMode.VIEW, ReadMode.TABLES]
    with work_on(name, start, end, doing="check", reads=reads, rows=FEW_ROWS) as work:
        return work.plan, check_view(work.spark, work.settings, work.pipeline, work.window)


def _compared(plan: Plan, view: "DataFrame", query: "DataFrame") -> ViewCheck:
    from pyspark.sql import functions as F  # noqa: N812

    key = list(plan.key)
    others = [name for name in plan.outputs if name not in key]
    found = (
        _as_struct(view, key, others, _VIEW)
        .join(_as_struct(query, key, others, _QUERY), key, "full_outer")
        .withColumn("different", F.expr(_different(plan, others)))
        .withColumn("kind", F.expr(_KIND))
    )
    counts = {row["kind"]: row["count"] for row in found.groupBy("kind").count().collect()}
    examples = []
    for kind in ("only_in_view", "only_in_query", "differing"):
        if counts.get(kind):
            some = found.where(F.col("kind") == kind).orderBy(*map(quoted, key))
            examples += some.limit(KEPT_OF_A_KIND).toArrow().to_pylist()
    return ViewCheck(
        rows=sum(counts.values()),
        only_in_view=counts.get("only_in_view", 0),
        only_in_query=counts.get("only_in_query", 0),
        differing=counts.get("differing", 0),
        examples=tuple(_example(plan, others, row) for row in examples),
    )


_KIND = f"""CASE
    WHEN {_QUERY} IS NULL THEN 'only_in_view'
    WHEN {_VIEW} IS NULL THEN 'only_in_query'
    WHEN SIZE(different) > 0 THEN 'differing'
    ELSE 'same'
END"""


def _as_struct(rows: "DataFrame", key: list[str], others: list[str], name: str) -> "DataFrame":
    """The columns outside of the key as one, c0, c1, …, and one more: it is never empty."""
    from pyspark.sql import functions as F  # noqa: N812

    values = [F.col(quoted(one)).alias(f"c{place}") for place, one in enumerate(others)]
    struct = F.struct(F.lit(None).cast("boolean").alias("none"), *values).alias(name)
    return rows.select(*map(quoted, key), struct)


def _different(plan: Plan, others: list[str]) -> str:
    """The places in `others` of the columns whose values differ."""
    tolerate, types = plan.manifest.tolerate, plan.result.columns
    return differing_places(
        tolerate.same(types[name], f"{_VIEW}.c{n}", f"{_QUERY}.c{n}")
        for n, name in enumerate(others)
    )


def _example(plan: Plan, others: list[str], row: Mapping[str, Any]) -> DifferentRow:
    key = tuple(row[name] for name in plan.key)
    both = row[_VIEW] is not None and row[_QUERY] is not None
    places = row["different"] if both else range(len(others))

    def side(name: str) -> Mapping[str, Any] | None:
        return row[name] and {others[n]: row[name][f"c{n}"] for n in places}

    return DifferentRow(key, side(_VIEW), side(_QUERY))
