"""`lockstep bench batch`: the hourly run beside PostgreSQL's own COPY of the same query.

Both read modes and COPY take turns, round after round, so that a noisy machine troubles all of
them alike; medians are compared. A PostgreSQL of the benchmark's own (below HOME/bench) holds the
orders, so the user's data and stack are left alone. Session start and the first, cold run are
reported apart: they are paid once a process.
"""

import shutil
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.accounts import Role
from lockstep.batch.run import run_pipeline
from lockstep.model.modes import ReadMode
from lockstep.model.window import Window
from lockstep.pipeline.project import Pipeline, read_project
from lockstep.settings import Settings
from lockstep.sources.postgres import connect
from lockstep.spark import spark_session
from pizzeria.names import MANIFEST, ORDERS_ENRICHED_BATCH, VIEW
from psycopg import sql

from lockstep_tools.bench.memory import PeakMemory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COPY = "COPY"
ALL, NEW_HOUR, SAME_HOUR = "all orders", "a new hour", "the hour again"


@dataclass
class Measured:
    """Seconds of each round, by what was read and by what; rows read; peak memory in MiB."""

    orders: int
    hour_orders: int
    seconds: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    session_seconds: float = 0.0
    cold_hour_seconds: float = 0.0
    peak_mib: dict[str, float] = field(default_factory=dict)

    def median(self, what: str, how: str) -> float:
        return statistics.median(self.seconds[what, how])

    def rows(self, what: str) -> int:
        return self.orders if what == ALL else self.hour_orders


def measure(
    settings: Settings,
    start: datetime,
    orders: int,
    rounds: int,
    on_progress: Callable[[str], None],
) -> Measured:
    """Run every kind `rounds` times by turns, after one uncounted round that warms the JVM up.

    settings: a PostgreSQL whose orders (`orders` of them) lie evenly over the day from `start`;
        the lakehouse it names is emptied.
    """
    pipeline = read_project(settings.project).pipeline(MANIFEST)
    measured = Measured(orders=orders, hour_orders=orders // 24)
    began = time.monotonic()
    with PeakMemory() as peak:
        spark = spark_session(settings, "lockstep bench batch")
        measured.session_seconds = time.monotonic() - began
        bench = _Rounds(spark, settings, pipeline, start, measured, peak)
        try:
            measured.cold_hour_seconds = bench.timed(lambda: bench.enrich(bench.hour(23)))
            for number in range(rounds + 1):
                on_progress("warming up" if number == 0 else f"round {number} of {rounds}")
                bench.round(number, counted=number > 0)
        finally:
            spark.stop()
    return measured


@dataclass
class _Rounds:
    spark: "SparkSession"
    settings: Settings
    pipeline: Pipeline
    start: datetime
    measured: Measured
    peak: PeakMemory

    def round(self, number: int, *, counted: bool) -> None:
        day = Window(self.start, self.start + timedelta(days=1))
        hour = self.hour(number % 20)
        for mode in ReadMode:
            self._empty_lakehouse()
            # Another hour is there already, so that the table exists; the measured one is new.
            self.enrich(self.hour(22), mode)
            self._time(NEW_HOUR, mode, lambda m=mode: self.enrich(hour, m), counted=counted)
            self._time(SAME_HOUR, mode, lambda m=mode: self.enrich(hour, m), counted=counted)
        self._time(NEW_HOUR, COPY, lambda: self._copy(hour), counted=counted)
        for mode in ReadMode:
            self._empty_lakehouse()
            self.peak.reset()
            self._time(ALL, mode, lambda m=mode: self.enrich(day, m), counted=counted)
            self.measured.peak_mib[mode] = self.peak.mib
        self._time(ALL, COPY, lambda: self._copy(day), counted=counted)

    def hour(self, number: int) -> Window:
        start = self.start + timedelta(hours=number)
        return Window(start, start + timedelta(hours=1))

    def enrich(self, window: Window, mode: ReadMode = ReadMode.VIEW) -> None:
        run_pipeline(self.spark, self.settings, self.pipeline, window, mode)

    def timed(self, work: Callable[[], None]) -> float:
        began = time.monotonic()
        work()
        return time.monotonic() - began

    def _time(self, what: str, how: str, work: Callable[[], None], *, counted: bool) -> None:
        seconds = self.timed(work)
        if counted:
            self.measured.seconds.setdefault((what, how), []).append(seconds)

    def _empty_lakehouse(self) -> None:
        shutil.rmtree(self.settings.table_uri(ORDERS_ENRICHED_BATCH), ignore_errors=True)

    def _copy(self, window: Window) -> None:
        query = sql.SQL(
            "COPY (SELECT * FROM {view} WHERE order_time >= {start} AND order_time < {end}) "
            "TO STDOUT"
        ).format(
            view=sql.Identifier(VIEW), start=sql.Literal(window.start), end=sql.Literal(window.end)
        )
        target = Path(self.settings.home) / "copied.txt"
        with (
            connect(self.settings, Role.BATCH_READER) as connection,
            connection.cursor().copy(query) as copied,
            target.open("wb") as file,
        ):
            for block in copied:
                file.write(block)
