"""The first rows that a query gives, as an hourly run would make them. Writes nothing."""

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockstep.batch.preflight import check_readable
from lockstep.batch.reading import reading
from lockstep.batch.work import planned, work_on
from lockstep.errors import LockstepError
from lockstep.model.modes import ReadMode
from lockstep.model.window import Window
from lockstep.pipeline.errors import ManifestError
from lockstep.pipeline.names import quoted
from lockstep.pipeline.plan import Plan
from lockstep.pipeline.project import Pipeline, read_project
from lockstep.pipeline.project_files import PIPELINES, SOURCES
from lockstep.settings import Settings
from lockstep.spark import FEW_ROWS, stopped_session
from lockstep.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK_SECONDS = 0.2
"""Between two looks at the files: less than a person notices."""
Stamps = dict[Path, tuple[int, int]]
"""Of each file of a pipeline and the sources: when it was changed, and its size."""


@dataclass(frozen=True)
class Preview:
    """rows: in the plan's columns. seconds: how long they took, without the session's start."""

    plan: Plan
    rows: list[dict[str, Any]]
    seconds: float


def preview(
    spark: "SparkSession",
    settings: Settings,
    pipeline: Pipeline,
    window: Window | None,
    limit: int,
) -> Preview:
    """At most `limit` rows of the window, by time and key; of all rows without one.

    result.lock need not be there yet. Raises as run_pipeline does.
    """
    started = time.monotonic()
    with reading(spark, settings, pipeline, window) as read:
        plan = read.plan
        order = dict.fromkeys([*([plan.time] if plan.time else []), *plan.key])
        first = read.outputs(ReadMode.TABLES).orderBy(*map(quoted, order)).limit(limit)
        return Preview(plan, first.toArrow().to_pylist(), time.monotonic() - started)


def preview_named(name: str, start: str, end: str, limit: int) -> Preview:
    """Preview a pipeline's rows in the window of ISO 8601 text, in a session of its own.

    Raises LockstepError: what is wrong with project, window or database before Spark is started.
    """
    reads = [ReadMode.TABLES]
    with work_on(name, start, end, doing="preview", reads=reads, rows=FEW_ROWS) as work:
        return preview(work.spark, work.settings, work.pipeline, work.window, limit)


def previews(name: str, start: str, end: str, limit: int) -> Iterator[Preview | LockstepError]:
    """The same now, and again after each change of the pipeline's or a source's files.

    All in one session, without an end. What is wrong with them is given in place of the rows, as
    the next change may correct it. Raises LockstepError without such a pipeline or without jars.
    """
    settings = Settings.load()
    with suppress(ManifestError):
        read_project(settings.project).pipeline(name)
    with stopped_session(settings, f"lockstep preview of {name}", FEW_ROWS) as spark:
        while True:
            seen = stamps(settings.project, name)
            try:
                yield _preview_again(spark, settings, name, start, end, limit)
            except LockstepError as error:
                yield error
            wait_until(lambda: stamps(settings.project, name), inf, LOOK_SECONDS, seen.__ne__)


def stamps(project: Path, name: str) -> Stamps:
    """Of the files that a preview is made of. One that goes meanwhile is left out."""
    found: Stamps = {}
    for folder in (project / PIPELINES / name, project / SOURCES):
        for file in folder.rglob("*"):
            with suppress(FileNotFoundError):
                of_file = file.stat()
                found[file] = (of_file.st_mtime_ns, of_file.st_size)
    return found


def _preview_again(
    spark: "SparkSession", settings: Settings, name: str, start: str, end: str, limit: int
) -> Preview:
    pipeline, plan, window = planned(settings, name, start, end)
    check_readable(settings, pipeline, plan, ReadMode.TABLES)
    return preview(spark, settings, pipeline, window, limit)
