"""The rows of the hourly table, from either read mode. Pure: DataFrame to DataFrame."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lockstep.cdc.cuts import Cut, DatabaseSnapshot
from lockstep.enrich.plans import bind, run
from lockstep.pipeline.names import quoted
from lockstep.pipeline.plan import Plan
from lockstep.pipeline.query.at import at_snapshot
from lockstep.pipeline.result_tables import HOURLY_PARTITION
from lockstep.pizzeria import CLIENTS, ORDERS, PIZZAS, TABLE_ASSIGNMENT, TABLES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

PIZZAS_TYPE = "array<struct<pizza: string, price: decimal(10, 2)>>"
BROADCAST_ROWS_MAX = 200_000
"""Rows a look-up side may have to be sent whole to every task: some 20 MB of names at the most."""


def from_view(view_rows: "DataFrame", snapshot: DatabaseSnapshot) -> "DataFrame":
    """Rows of the view, their JSON text parsed into the array of pizzas."""
    from pyspark.sql import functions as F  # noqa: N812

    return view_rows.select(
        "order_id",
        "order_time",
        "client_name",
        "table_name",
        F.from_json("pizzas", PIZZAS_TYPE).alias("pizzas"),
        _origin("pizza_ids", snapshot),
    )


def from_tables(
    spark: "SparkSession",
    plan: Plan,
    tables: Mapping[str, "DataFrame"],
    orders: int,
    snapshot: DatabaseSnapshot,
) -> "DataFrame":
    """The five tables joined by the pipeline's query, each row with its origin.

    orders: how many orders there are; no more seatings and clients than that can be referred to.
        JDBC says nothing of sizes to Spark, so the small sides of the joins are named here.
    """
    small = {TABLES, PIZZAS}
    if orders <= BROADCAST_ROWS_MAX:
        small |= {TABLE_ASSIGNMENT, CLIENTS}
    for name, planned in plan.tables.items():
        rows = tables[name.name].select(*map(quoted, planned.columns))
        bind(rows.hint("broadcast" if name.name in small else "shuffle_hash"), name)
    origins = (
        tables[ORDERS]
        .selectExpr("id AS order_id", "*")
        .select("order_id", _origin("pizzas", snapshot))
    )
    return run(spark, at_snapshot(plan.query)).join(origins, "order_id")


def _origin(pizza_ids: str, snapshot: DatabaseSnapshot) -> "Column":
    """What the rows say of the row of `orders`.

    Its transaction is one of the 2^32 before the snapshot's next one (xmax), which gives the
    number that the row has of it the upper half.
    """
    from pyspark.sql import functions as F  # noqa: N812

    xmax = F.lit(snapshot.xmax)
    return F.struct(
        F.col("table_assignment_id").cast("bigint").alias("table_assignment_id"),
        F.col(pizza_ids).cast("array<int>").alias("pizza_ids"),
        (xmax - F.pmod(xmax - F.col("row_xid"), F.lit(2**32))).alias("tx_id"),
        F.col("row_committed_at").alias("committed_at"),
    ).alias("origin")


def with_cut(enriched: "DataFrame", cut: Cut) -> "DataFrame":
    """The columns of the hourly table, in their order, with the partition and the cut."""
    from pyspark.sql import functions as F  # noqa: N812

    return enriched.select(
        "order_id",
        "order_time",
        "client_name",
        "table_name",
        "pizzas",
        F.to_date("order_time").alias(HOURLY_PARTITION),
        F.lit(cut.run_id).alias("run_id"),
        F.lit(cut.snapshot).alias("cut_snapshot"),
        F.lit(cut.marker_lsn).cast("bigint").alias("cut_lsn"),
        "origin",
    )
