"""`lockstep bench parity`: our comparison beside datacompy's, of the same tables in one run.

Both get a window of the hourly table and a stream's change log, in one Spark session and by turns.
datacompy compares two sets of rows by their key: it is given the last state of each order, and says
how many rows differ. Ours compares at the hourly run's cut and gives each order's class.
"""

import importlib.util
import shutil
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lockstep.errors import ConfigurationError
from lockstep.parity import comparison
from lockstep.parity.comparison import OtherModes
from lockstep.parity.sides import Sides
from lockstep.pipeline.plan import Plan, plan_named
from lockstep.settings import Settings
from lockstep.spark import spark_session
from pizzeria.names import MANIFEST

from lockstep_tools.bench.memory import PeakMemory
from lockstep_tools.bench.parity_tables import MODE, WINDOW, MadeTables, make_tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OURS, PEER = "lockstep", "datacompy"


@dataclass
class Side:
    """seconds: of each round, the first one in a cold JVM. found: what it says of the tables."""

    seconds: list[float] = field(default_factory=list)
    peak_mib: float = 0.0
    found: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


@dataclass
class Measured:
    """session_seconds: until Spark was there, paid once a process and not part of the rounds."""

    orders: int
    session_seconds: float
    sides: dict[str, Side]


def measure(
    settings: Settings, orders: int, rounds: int, on_progress: Callable[[str], None]
) -> Measured:
    """Compare made-up tables of so many orders `rounds` times with each, by turns.

    Raises ConfigurationError without the peer, which production does not install, and
    AssertionError when ours does not count each class as the tables were made.
    """
    if importlib.util.find_spec(PEER) is None:
        raise ConfigurationError(f"{PEER} is not installed: pip install -r requirements-dev.txt")
    own = settings.model_copy(
        update={"home": settings.home / "bench-parity", "lakehouse": "", "spark_master": "local[2]"}
    )
    plan = plan_named(own.project, MANIFEST)
    began = time.monotonic()
    with PeakMemory() as peak:
        spark = spark_session(own, "lockstep bench parity")
        measured = Measured(orders, time.monotonic() - began, {OURS: Side(), PEER: Side()})
        try:
            on_progress(f"making tables of {orders:,} orders")
            made = make_tables(spark, own, orders)
            for number in range(1, rounds + 1):
                on_progress(f"round {number} of {rounds}")
                _timed(measured.sides[OURS], peak, lambda: _ours(spark, own, plan, made))
                spark.catalog.clearCache()
                _timed(measured.sides[PEER], peak, lambda: _peers(spark, own, plan))
                spark.catalog.clearCache()
        finally:
            spark.stop()
            shutil.rmtree(own.home, ignore_errors=True)
    return measured


def _timed(side: Side, peak: PeakMemory, compare: Callable[[], str]) -> None:
    peak.reset()
    began = time.monotonic()
    side.found = compare()
    side.seconds.append(time.monotonic() - began)
    side.peak_mib = max(side.peak_mib, peak.mib)


def _ours(spark: "SparkSession", settings: Settings, plan: Plan, made: MadeTables) -> str:
    sides = Sides(settings, plan, WINDOW, MODE, made.ready)
    wrong = sides.differing_columns()
    compared = comparison.compare(spark, sides, OtherModes())
    if wrong or compared.counts != made.expected:
        raise AssertionError(f"{compared.counts}, not {made.expected}; {wrong}")
    counts = ", ".join(f"{count:,} {kind}" for kind, count in compared.counts.items())
    return f"{compared.rows:,} orders at the cut: {counts}, each with its cause"


def _peers(spark: "SparkSession", settings: Settings, plan: Plan) -> str:
    import datacompy

    columns = list(plan.result.columns)
    last = _last_of_each(_read(spark, settings, plan.change_log(MODE)), columns)
    compared = datacompy.SparkSQLCompare(
        spark,
        _plain(_read(spark, settings, plan.hourly_table), columns),
        _plain(last, columns),
        join_columns="order_id",
    )
    compared.report()
    in_both = compared.intersect_rows.count()
    differing = in_both - compared.count_matching_rows()
    only = compared.df2_unq_rows.count()
    return f"{in_both:,} rows joined: {differing:,} differ, {only:,} only in the stream; no cause"


def _read(spark: "SparkSession", settings: Settings, table: str) -> "DataFrame":
    return spark.read.format("delta").load(settings.table_uri(table))


def _last_of_each(changes: "DataFrame", columns: Sequence[str]) -> "DataFrame":
    from pyspark.sql import functions as F  # noqa: N812

    state = F.struct(*columns).alias("state")
    last = changes.groupBy("order_id").agg(F.max_by(state, "commit_lsn").alias("last"))
    return last.select("last.*")


def _plain(rows: "DataFrame", columns: Sequence[str]) -> "DataFrame":
    """The compared columns, the pizzas as text: it compares plain values only."""
    from pyspark.sql import functions as F  # noqa: N812

    return rows.select(*columns).withColumn("pizzas", F.to_json("pizzas"))
