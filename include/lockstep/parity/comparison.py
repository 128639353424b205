"""The comparison itself, in Spark: SQL over both tables at one version each.

It shares no code with the modes it judges: what it knows of them is their tables.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from string import Template
from typing import TYPE_CHECKING, Any

from lockstep.cdc.cuts import DatabaseSnapshot
from lockstep.model.log import SNAPSHOT_COMMIT_LSN
from lockstep.model.modes import StreamMode
from lockstep.model.verdict import DifferenceClass
from lockstep.model.window import Window
from lockstep.parity.readiness import Readiness
from lockstep.pipeline import row_keys
from lockstep.pipeline.names import quoted
from lockstep.pipeline.plan import Plan
from lockstep.pipeline.result import Result
from lockstep.pizzeria import (
    LOOK_UP,
    LOOK_UP_TYPE,
    ORDERS_ENRICHED_BATCH,
    PIPELINE,
    SOURCE_HISTORY,
    change_log_table,
)
from lockstep.project import MARKER, project_dir, read_project_file
from lockstep.settings import Settings
from lockstep.sinks.window_conditions import inside, of_time
from lockstep.sources.delta import open_table, run_query

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

KEPT_OF_A_CLASS = 1_000
"""Differing rows kept with their evidence, by class; all are counted."""
_BEFORE = "is_before_capture"
_BOUNDED = ("smallint", "int", "bigint", "date", "timestamp")
"""Types of keys that come in about the order of time, so that bounds leave out other files."""
_SQL = MARKER / PIPELINE / "parity"


@dataclass(frozen=True)
class Compared:
    """What the comparison of a window found.

    rows: that either side has in the window.
    counts: rows by class; classes without any are absent.
    before_capture: rows that cannot be judged, for they rest on the time before change capture.
    differing: rows of differences.sql, those that the history explains with `changes` (of the
        dimensions, behind the values that differ) and, if raced, `seen` (the row's change that
        the look-up saw; None when none), at most KEPT_OF_A_CLASS of each class, none of before
        capture.
    """

    rows: int
    counts: Mapping[DifferenceClass, int]
    before_capture: int
    differing: list[dict]


def schema_differences(
    spark: "SparkSession", settings: Settings, plan: Plan, mode: StreamMode, ready: Readiness
) -> list[str]:
    """Where the compared columns of the two tables are absent or of different types."""
    batch = dict(_at(spark, settings, ORDERS_ENRICHED_BATCH, ready.batch_version).dtypes)
    stream = dict(_at(spark, settings, change_log_table(mode), ready.stream_version).dtypes)
    return [
        f"{name}: {batch.get(name, 'absent')} in the hourly table, "
        f"{stream.get(name, 'absent')} in the stream's"
        for name in plan.result.columns
        if batch.get(name) is None or batch.get(name) != stream.get(name)
    ]


def compare(
    spark: "SparkSession",
    settings: Settings,
    plan: Plan,
    window: Window,
    mode: StreamMode,
    ready: Readiness,
) -> Compared:
    """Compare the window at the run's cut, which the stream has passed (`readiness`).

    A repaired row is compared at the cut of its last repair.
    """
    from pyspark.sql import Observation
    from pyspark.sql import functions as F  # noqa: N812

    parameters = _cut_parameters(ready)
    bind_both_sides(spark, settings, plan, window, mode, ready)
    met = Observation()
    bounds = {"window_start": window.start.isoformat(), "window_end": window.end.isoformat()}
    judged = spark.sql(_sql("differences", parameters | bounds))
    judged = judged.observe(met, F.count_if(F.col("in_batch") | F.col("in_stream")).alias("rows"))
    with _kept(judged.where("class IS NOT NULL")) as differing:
        kinds = {row["class"] for row in differing.groupBy("class").count().collect()}
        counts, before, rows = {}, 0, []
        if kinds:
            classed = differing
            if DifferenceClass.VALUE_MISMATCH in kinds:
                classed = _explained(spark, settings, plan, mode, differing)
            classed = classed.withColumn(_BEFORE, _before(mode, ready))
            counts, before, rows = _counted(classed, plan.result.key)
    return Compared(met.get["rows"], counts, before, rows)


def definition(plan: Plan) -> str:
    """Identifies how windows are judged: it changes with the SQL, and with what is tolerated."""
    digest = hashlib.sha256()
    for path in sorted((project_dir() / _SQL).glob("*.sql")):
        digest.update(path.read_bytes())
    digest.update(plan.manifest.tolerate.model_dump_json().encode())
    return digest.hexdigest()[:12]


def bind_both_sides(
    spark: "SparkSession",
    settings: Settings,
    plan: Plan,
    window: Window,
    mode: StreamMode,
    ready: Readiness,
) -> None:
    """batch_rows, and stream_changes: all changes of the rows that either side has there.

    A row's change may lie outside the window by its time only, so rows are found by time first, and
    their changes by key; bounds of the keys let Delta skip most files of a long history.
    """
    from pyspark.sql import functions as F  # noqa: N812

    time, key = quoted(plan.time), [quoted(name) for name in plan.result.key]
    batch = _at(spark, settings, ORDERS_ENRICHED_BATCH, ready.batch_version)
    batch = batch.where(inside(window, time)).select(*map(quoted, plan.result.columns), "origin")
    log = _at(spark, settings, change_log_table(mode), ready.stream_version)
    keys = batch.select(*key).union(log.where(of_time(window, time)).select(*key))
    if _is_bounded(plan.result):
        first, last = _bounds_of_keys(settings, plan, window, mode, ready)
        log = log.where(F.col(key[0]).between(F.lit(first), F.lit(last)))
    if LOOK_UP not in log.columns:  # of another mode, or not started since look-ups keep it
        log = log.withColumn(LOOK_UP, F.lit(None).cast(LOOK_UP_TYPE))
    changes = log.join(keys, list(plan.result.key), "left_semi")
    batch.createOrReplaceTempView("batch_rows")
    changes.createOrReplaceTempView("stream_changes")


def _is_bounded(result: Result) -> bool:
    return len(result.key) == 1 and result.columns[result.key[0]] in _BOUNDED


def _bounds_of_keys(
    settings: Settings, plan: Plan, window: Window, mode: StreamMode, ready: Readiness
) -> tuple[Any, Any]:
    """The least and the greatest key of the rows that either side has in the window; None of none.

    Without Spark, which would take a job for it.
    """
    name, time = row_keys.quoted(plan.result.key[0]), row_keys.quoted(plan.time)
    bounds = []
    for table_name, version, condition in (
        (ORDERS_ENRICHED_BATCH, ready.batch_version, inside(window, time)),
        (change_log_table(mode), ready.stream_version, of_time(window, time)),
    ):
        table = open_table(settings.table_uri(table_name), version)
        query = f"SELECT min({name}), max({name}) FROM rows_of WHERE {condition}"  # noqa: S608
        (found,) = run_query(query, {"rows_of": table}).read_all().to_pylist()
        bounds += [value for value in found.values() if value is not None]
    return min(bounds, default=None), max(bounds, default=None)


def _explained(
    spark: "SparkSession",
    settings: Settings,
    plan: Plan,
    mode: StreamMode,
    differing: "DataFrame",
) -> "DataFrame":
    """The same rows; a value mismatch that the database's history explains is a race or a drift."""
    from pyspark.sql import functions as F  # noqa: N812

    suspects = differing.where(F.col("class") == DifferenceClass.VALUE_MISMATCH)
    suspects.createOrReplaceTempView("suspects")
    history = spark.read.format("delta").load(settings.table_uri(SOURCE_HISTORY))
    history.createOrReplaceTempView("source_history")
    explained = spark.sql(_sql("explained", {"mode": mode}))
    race, drift = DifferenceClass.LOOKUP_RACE, DifferenceClass.DIMENSION_DRIFT
    by_design = F.when(F.col("stream.is_raced"), str(race)).otherwise(str(drift))
    kind = F.when(F.col("changes").isNotNull(), by_design).otherwise(F.col("class"))
    return differing.join(explained, list(plan.result.key), "left").withColumn("class", kind)


def _before(mode: StreamMode, ready: Readiness) -> "Column":
    """Of a mode that knows only what was published: what rests on the time before capture began.

    A row that was there before and never published since is not missing; and of one that the
    initial snapshot found published, no record says what was joined with it since. A row whose
    commit time the database does not give counts as one of after.
    """
    from pyspark.sql import functions as F  # noqa: N812

    if mode not in (StreamMode.OUTBOX, StreamMode.MESSAGE):
        return F.lit(False)
    committed_before = F.col("batch.origin.committed_at") < F.lit(ready.capture_began)
    is_missing = F.col("class") == DifferenceClass.MISSING_IN_STREAM
    is_unexplained = F.col("class") == DifferenceClass.VALUE_MISMATCH
    of_snapshot = F.col("stream.commit_lsn") == SNAPSHOT_COMMIT_LSN
    return F.coalesce(
        (is_missing & committed_before) | (is_unexplained & of_snapshot), F.lit(False)
    )


def _counted(
    classed: "DataFrame", key: Sequence[str]
) -> tuple[dict[DifferenceClass, int], int, list[dict]]:
    """Rows by class, rows of before capture, and the first rows of each class: in one job."""
    from pyspark.sql import Observation
    from pyspark.sql import Window as Rows
    from pyspark.sql import functions as F  # noqa: N812

    met = Observation()
    is_before = F.col(_BEFORE)
    of_kind = [
        F.count_if(~is_before & (F.col("class") == kind)).alias(kind) for kind in DifferenceClass
    ]
    place = F.row_number().over(Rows.partitionBy("class").orderBy(*map(quoted, key)))
    first = (
        classed.observe(met, F.count_if(is_before).alias(_BEFORE), *of_kind)
        .where(~is_before)
        .withColumn("place", place)
        .where(F.col("place") <= KEPT_OF_A_CLASS)
    )
    rows = first.drop("place", _BEFORE).toArrow().to_pylist()
    counts = {kind: n for kind in DifferenceClass if (n := met.get[kind])}
    ranks = {str(kind): rank for rank, kind in enumerate(DifferenceClass)}
    rows.sort(key=lambda row: (ranks[row["class"]], *(row[name] for name in key)))
    return counts, met.get[_BEFORE], rows


def _cut_parameters(ready: Readiness) -> dict[str, str]:
    """As JSON, the run's snapshot, and each repair's with the rows that are judged at it."""
    repaired: dict[str, list[int]] = {}
    for id_, cut in ready.cuts_of_repaired().items():
        repaired.setdefault(cut.snapshot, []).append(id_)
    repairs = [
        {"order_ids": ids, "cut": _snapshot_fields(snapshot)} for snapshot, ids in repaired.items()
    ]
    run = _snapshot_fields(ready.run.cut.snapshot)
    return {"cut": json.dumps(run), "repairs": json.dumps(repairs)}


def _snapshot_fields(snapshot: str) -> dict:
    seen = DatabaseSnapshot.parse(snapshot)
    return {"xmin": seen.xmin, "xmax": seen.xmax, "in_progress": sorted(seen.in_progress)}


def _sql(name: str, parameters: Mapping[str, str]) -> str:
    """The query with its parameters, all of them numbers (in JSON, too) and times of ours.

    Spark binds no parameters when Delta's extension parses the query.
    """
    return Template(read_project_file(_SQL / f"{name}.sql")).substitute(parameters)


def _at(spark: "SparkSession", settings: Settings, table: str, version: int) -> "DataFrame":
    reader = spark.read.format("delta").option("versionAsOf", version)
    return reader.load(settings.table_uri(table))


@contextmanager
def _kept(rows: "DataFrame") -> "Iterator[DataFrame]":
    """Computed once for the block, in memory or on the disk."""
    rows.persist()
    try:
        yield rows
    finally:
        rows.unpersist()
