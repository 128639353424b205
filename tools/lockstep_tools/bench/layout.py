"""`lockstep bench layout`: an hourly table by day, and one by day and hour, as before.

Both layouts take turns, round after round, with the same made-up rows, in one Spark session and
below HOME/bench, written by Spark. Partitions of day and hour are the layout of earlier versions.
"""

import shutil
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.model.window import HOUR, Window
from lockstep.pipeline.result_tables import HOURLY_PARTITION, PUBLISHED_PARTITIONS
from lockstep.publish.from_hourly import of_hours
from lockstep.settings import Settings
from lockstep.sinks.hourly_table import replace_window
from lockstep.sinks.window_conditions import inside
from lockstep.spark import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

START = datetime(2024, 1, 1, tzinfo=UTC)
OPEN_HOURS = 12
"""Of each day, from its tenth hour on; the others are quiet."""
OPENS = 10 * HOUR
TIME = "row_time"
_DATE, _HOUR = PUBLISHED_PARTITIONS  # those of of_hours
BY_DAY, BY_HOUR = "days", "days and hours"
ALL, READ, NEW_HOUR, HOUR_OF_ALL, SAME_HOUR = (
    "all days",
    "read all days",
    "a new hour",
    "an hour of all days",
    "the same hour again",
)


@dataclass
class Measured:
    """Seconds of each round by what was done and by layout; files of all days by layout."""

    rows: int
    hour_rows: int
    seconds: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    files: dict[str, int] = field(default_factory=dict)

    def median(self, what: str, layout: str) -> float:
        return statistics.median(self.seconds[what, layout])


def measure(
    settings: Settings, days: int, hour_rows: int, rounds: int, on_progress: Callable[[str], None]
) -> Measured:
    """Write, read and replace in both layouts, after one uncounted round that warms the JVM up."""
    measured = Measured(days * OPEN_HOURS * hour_rows, hour_rows)
    folder = settings.home / "bench" / "layout"
    spark = spark_session(settings, "lockstep bench layout")
    try:
        for number in range(rounds + 1):
            on_progress("warming up" if number == 0 else f"round {number} of {rounds}")
            for layout in (BY_DAY, BY_HOUR):
                shutil.rmtree(folder, ignore_errors=True)
                table = _Table(spark, folder, layout, hour_rows)
                for what, seconds in _round(table, days, number).items():
                    if number:
                        measured.seconds.setdefault((what, layout), []).append(seconds)
                measured.files[layout] = table.files()
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return measured


def _round(table: "_Table", days: int, number: int) -> dict[str, float]:
    everything = Window(START, START + timedelta(days=days))
    opened = START + timedelta(days=number % days) + OPENS
    old = Window(opened + HOUR, opened + 2 * HOUR)
    new = Window(everything.end + OPENS, everything.end + OPENS + HOUR)
    return {
        ALL: _timed(lambda: table.replace(everything)),
        READ: _timed(lambda: table.read(everything)),
        NEW_HOUR: _timed(lambda: table.replace(new)),
        HOUR_OF_ALL: _timed(lambda: table.replace(old)),
        SAME_HOUR: _timed(lambda: table.replace(old)),
    }


def _timed(work: Callable[[], None]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


@dataclass
class _Table:
    spark: "SparkSession"
    folder: Path
    layout: str
    hour_rows: int

    def replace(self, window: Window) -> None:
        rows, uri = self._rows(window), str(self.folder)
        if self.layout == BY_DAY:
            replace_window(rows, uri, TIME, window, "{}")
            return
        (
            rows.withColumnRenamed(HOURLY_PARTITION, _DATE)
            .selectExpr("*", f"hour({TIME}) AS {_HOUR}")
            .write.format("delta")
            .mode("overwrite")
            .partitionBy(_DATE, _HOUR)
            .option("replaceWhere", self._inside(window))
            .option("userMetadata", "{}")
            .option("mergeSchema", "true")
            .save(uri)
        )

    def read(self, window: Window) -> None:
        """As a comparison does: all values of each row, by key."""
        rows = self.spark.read.format("delta").load(str(self.folder)).where(self._inside(window))
        rows.groupBy("row_id").agg({"name": "max", TIME: "max"}).write.format("noop").mode(
            "overwrite"
        ).save()

    def files(self) -> int:
        return len(list(self.folder.glob("*/**/*.parquet")))

    def _rows(self, window: Window) -> "DataFrame":
        """So many rows in each hour of the window that is open."""
        hour = f"id div {self.hour_rows}"
        opens = window.start
        if window.end - window.start > HOUR:
            hour = f"({hour}) div {OPEN_HOURS} * 24 + ({hour}) % {OPEN_HOURS}"
            opens += OPENS
        days = max((window.end - window.start) // timedelta(days=1) * OPEN_HOURS, 1)
        second = f"({hour}) * 3600 + (id % {self.hour_rows}) * 3600 div {self.hour_rows}"
        return (
            self.spark.range(days * self.hour_rows)
            .selectExpr(
                "id AS row_id",
                f"timestamp_seconds({int(opens.timestamp())} + {second}) AS {TIME}",
                "concat('row ', id) AS name",
            )
            .selectExpr("*", f"to_date({TIME}) AS {HOURLY_PARTITION}")
        )

    def _inside(self, window: Window) -> str:
        return inside(window, TIME) if self.layout == BY_DAY else of_hours(window)
