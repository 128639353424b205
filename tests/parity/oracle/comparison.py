"""The pizzeria's comparison as it was written by hand: an oracle for the one made from plans.

Its SQL names the columns. What an order refers to it takes from `origin` and `look_up`, which have
two more fields here than the library writes: table_assignment_id and pizza_ids.
"""

import json
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from lockstep.cdc.cuts import DatabaseSnapshot
from lockstep.model.window import Window
from lockstep.parity.readiness import Readiness
from lockstep.pipeline.modes import Mode
from lockstep.pipeline.plan import Plan
from lockstep.settings import Settings
from lockstep.sinks.window_conditions import inside, of_time

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REFERS_TO = {"table_assignment_id": "bigint", "pizza_ids": "array<bigint>"}
"""Fields that origin and look_up have here only: the origin's pizza_ids are integers."""
LOOK_UP_TYPE = (
    "struct<table_assignment_id:bigint,pizza_ids:array<bigint>,snapshot:string,wal_lsn:bigint>"
)
_FOLDER = Path(__file__).parent


def classes(
    spark: "SparkSession",
    settings: Settings,
    plan: Plan,
    window: Window,
    mode: Mode,
    ready: Readiness,
) -> dict[int, str]:
    """The class of each order of the window that differs."""
    from pyspark.sql import functions as F  # noqa: N812

    session = spark.newSession()
    _bind(session, settings, plan, window, mode)
    bounds = {"window_start": window.start.isoformat(), "window_end": window.end.isoformat()}
    judged = session.sql(_sql("differences", _cut_parameters(ready) | bounds))
    differing = judged.where("class IS NOT NULL").persist()
    differing.where("class = 'value_mismatch'").createOrReplaceTempView("suspects")
    history = session.read.format("delta").load(settings.table_uri(plan.history))
    history.createOrReplaceTempView("source_history")
    explained = session.sql(_sql("explained", {"mode": mode}))
    by_design = F.when(F.col("stream.is_raced"), "lookup_race").otherwise("dimension_drift")
    kind = F.when(F.col("changes").isNotNull(), by_design).otherwise(F.col("class"))
    found = differing.join(explained, list(plan.key), "left").select(*plan.key, kind.alias("class"))
    rows = found.collect()
    differing.unpersist()
    return {row[plan.key[0]]: row["class"] for row in rows}


def _bind(
    session: "SparkSession", settings: Settings, plan: Plan, window: Window, mode: Mode
) -> None:
    """batch_rows, and stream_changes: all changes of the rows that either side has there."""
    from pyspark.sql import functions as F  # noqa: N812

    batch = _read(session, settings, plan.hourly_table).where(inside(window, plan.time))
    log = _read(session, settings, plan.change_log(mode))
    if "look_up" not in log.columns:
        log = log.withColumn("look_up", F.lit(None).cast(LOOK_UP_TYPE))
    keys = batch.select(*plan.key).union(log.where(of_time(window, plan.time)).select(*plan.key))
    batch.select(*plan.outputs, "origin").createOrReplaceTempView("batch_rows")
    changes = log.join(keys, list(plan.key), "left_semi")
    changes.createOrReplaceTempView("stream_changes")


def _read(session: "SparkSession", settings: Settings, table: str) -> "DataFrame":
    return session.read.format("delta").load(settings.table_uri(table))


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


def _sql(name: str, parameters: dict[str, str]) -> str:
    text = (_FOLDER / f"{name}.sql").read_text(encoding="utf-8")
    return Template(text).substitute(parameters)
