"""Both sides of a window as the views of differences.py, each table at one version."""

from typing import TYPE_CHECKING

import pyarrow as pa

from lockstep.parity.at_points import table_of
from lockstep.parity.differences import (
    BATCH_ROWS,
    COMMIT,
    REPAIRED,
    STREAM_CHANGES,
    key_names,
    value_names,
    values_of,
)
from lockstep.parity.points import Cuts
from lockstep.parity.proof import key_schema
from lockstep.parity.sides import Sides
from lockstep.pipeline.names import quoted
from lockstep.pipeline.plan import Plan
from lockstep.settings import Settings
from lockstep.sinks.window_conditions import inside, of_time, up_to

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


def bind_both_sides(session: "SparkSession", sides: Sides) -> None:
    """BATCH_ROWS, and STREAM_CHANGES: all changes of the rows that either side has there.

    A row's change may lie outside the window by its time only, so rows are found by time first, and
    their changes by key; bounds of the keys let Delta skip most files of a long history.
    """
    plan, few = sides.plan, sides.few
    batch, changes = map(session.createDataFrame, few) if few else _scanned(session, sides)
    hourly = _of_key(plan, batch, sides.has_repeated_keys())
    hourly.createOrReplaceTempView(BATCH_ROWS)
    own = [*COMMIT, "is_raced"]
    changes.select(*_keys(plan), *_values(plan), *own, _look_up(changes)).createOrReplaceTempView(
        STREAM_CHANGES
    )


def _scanned(session: "SparkSession", sides: Sides) -> tuple["DataFrame", "DataFrame"]:
    """What sides.few gives, as Spark reads it, of any number of rows."""
    plan, window, ready = sides.plan, sides.window, sides.ready
    time, key = quoted(plan.time), [quoted(name) for name in plan.key]
    batch = _read(session, sides.settings, plan.hourly_table, versionAsOf=ready.batch_version)
    batch = batch.where(inside(window, time))
    log = _read(session, sides.settings, plan.change_log(sides.mode)).where(up_to(ready.frontier))
    keys = batch.select(*key).union(log.where(of_time(window, time)).select(*key))
    if bounds := sides.key_bounds:
        log = log.where(f"{key[0]} BETWEEN {bounds.least} AND {bounds.greatest}")
    return batch, log.join(keys, list(plan.key), "left_semi")


def bind_repaired(session: "SparkSession", plan: Plan, cuts: Cuts) -> None:
    """REPAIRED, when there are such rows: their keys, each with the place of its cut."""
    if not cuts.repaired:
        return
    places = {text: place for place, text in enumerate(cuts.texts)}
    rows = [(*key, places[text]) for key, text in cuts.repaired.items()]
    schema = pa.schema([*key_schema(plan), ("cut", pa.int32())])
    session.createDataFrame(table_of(rows, schema)).createOrReplaceTempView(REPAIRED)


def _read(spark: "SparkSession", settings: Settings, table: str, **options: object) -> "DataFrame":
    return spark.read.format("delta").options(**options).load(settings.table_uri(table))


def _of_key(plan: Plan, batch: "DataFrame", is_repeated: bool) -> "DataFrame":
    """Grouping sorts all rows of the window once more, so only where it must."""
    from pyspark.sql import functions as F  # noqa: N812

    row = F.struct(*_values(plan), _origin(batch)).alias("batch")
    rows = batch.select(*_keys(plan), row)
    if not is_repeated:
        return rows.withColumn("batch_rows", F.lit(1).cast("bigint"))
    grouped = rows.groupBy(*key_names(plan))
    return grouped.agg(F.any_value("batch").alias("batch"), F.count("*").alias("batch_rows"))


def _keys(plan: Plan) -> list["Column"]:
    """The key's columns as differences.py calls them."""
    from pyspark.sql import functions as F  # noqa: N812

    pairs = zip(key_names(plan), plan.key, strict=True)
    return [F.col(quoted(name)).alias(short) for short, name in pairs]


def _values(plan: Plan) -> list["Column"]:
    """The other columns as differences.py calls them."""
    from pyspark.sql import functions as F  # noqa: N812

    pairs = zip(value_names(plan), values_of(plan), strict=True)
    return [F.col(quoted(name)).alias(short) for short, name in pairs]


def _origin(batch: "DataFrame") -> "Column":
    """What wrote the fact's row; null in the table of a pipeline that does not keep it."""
    from pyspark.sql import functions as F  # noqa: N812

    if "origin" not in batch.columns:
        return F.lit(None).cast("struct<tx_id:bigint,committed_at:timestamp>").alias("origin")
    kept = F.struct(F.col("origin.tx_id"), F.col("origin.committed_at"))
    return F.when(F.col("origin").isNotNull(), kept).alias("origin")


def _look_up(log: "DataFrame") -> "Column":
    """The look-up's snapshot; null of other modes, and of what earlier versions looked up."""
    from pyspark.sql import functions as F  # noqa: N812

    is_kept = "look_up" in log.columns
    snapshot = F.col("look_up.snapshot") if is_kept else F.lit(None).cast("string")
    return snapshot.alias("look_up")
