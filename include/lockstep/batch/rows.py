"""The rows of the hourly table, from either read mode. Pure: DataFrame to DataFrame."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from lockstep.enrich.plans import bind, run
from lockstep.pipeline.catalog import TableName
from lockstep.pipeline.delta_types import is_nested
from lockstep.pipeline.names import quoted
from lockstep.pipeline.plan import Plan
from lockstep.pipeline.query.at import at_snapshot

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

BROADCAST_ROWS_MAX = 200_000
"""Rows that may be sent whole to every task, of a look-up side or of origins: some 20 MB."""


def from_view(rows: "DataFrame", columns: Mapping[str, str], origin: "Column") -> "DataFrame":
    """The result's columns of the view's rows, JSON text parsed, with the origin.

    columns: name and Delta type of each.
    """
    from pyspark.sql import functions as F  # noqa: N812

    parsed = [
        F.from_json(quoted(name), kind).alias(name) if is_nested(kind) else F.col(quoted(name))
        for name, kind in columns.items()
    ]
    return rows.select(*parsed, origin)


def from_tables(
    spark: "SparkSession",
    plan: Plan,
    tables: Mapping[TableName, "DataFrame"],
    facts: int,
    small: Collection[TableName],
    origin: "Column",
) -> "DataFrame":
    """The tables joined by the pipeline's query, each row with the origin that its fact has.

    facts: how many there are; of a table that is read for the window no more rows than that can be
        referred to. small: tables that are read whole, for they have few rows. JDBC says nothing of
        sizes to Spark, so the small sides of the joins are named here.
    """
    from pyspark.sql import functions as F  # noqa: N812

    for name, planned in plan.tables.items():
        rows = tables[name].select(*map(quoted, planned.columns))
        is_small = name in small or (planned is not plan.fact and facts <= BROADCAST_ROWS_MAX)
        bind(rows.hint("broadcast" if is_small else "shuffle_hash"), name)
    keys = [
        F.col(quoted(column)).alias(name)
        for column, name in zip(plan.fact.key, plan.key, strict=True)
    ]
    origins = tables[plan.fact.name].select(*keys, origin)
    if facts <= BROADCAST_ROWS_MAX:
        # Else both sides are exchanged and sorted, for JDBC says nothing of sizes.
        origins = F.broadcast(origins)
    return run(spark, at_snapshot(plan.query)).join(origins, list(plan.key))
