"""What a row of the pizzeria's hourly table says of the row of `orders` that it was made of.

The column `origin`, in Spark and without it. Both are made of a read of include/postgres, which
has more columns than the result: what the row refers to; row_xid, the transaction that wrote it
(32 bits); and row_committed_at, null when the database does not track that.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lockstep.cdc.cuts import XID_SPAN, DatabaseSnapshot

if TYPE_CHECKING:
    from pyspark.sql import Column

OF_VIEW = "pizza_ids"
OF_FACT = "pizzas"
"""The column with the ids of the pizzas, in the read of the view and in that of the table."""


def origin_column(pizza_ids: str, snapshot: DatabaseSnapshot) -> "Column":
    """The column of the rows of a read; pizza_ids: OF_VIEW or OF_FACT.

    The row's transaction is one of the 2^32 before the snapshot's next one (xmax), which gives the
    number that the row has of it the upper half.
    """
    from pyspark.sql import functions as F  # noqa: N812

    xmax = F.lit(snapshot.xmax)
    return F.struct(
        F.col("table_assignment_id").cast("bigint").alias("table_assignment_id"),
        F.col(pizza_ids).cast("array<int>").alias("pizza_ids"),
        (xmax - F.pmod(xmax - F.col("row_xid"), F.lit(XID_SPAN))).alias("tx_id"),
        F.col("row_committed_at").alias("committed_at"),
    ).alias("origin")


def origin_value(read: Mapping[str, Any], snapshot: DatabaseSnapshot) -> dict[str, Any]:
    """The same of one row of the view's read."""
    return {
        "table_assignment_id": read["table_assignment_id"],
        "pizza_ids": read[OF_VIEW],
        "tx_id": snapshot.full_tx_id(read["row_xid"]),
        "committed_at": read["row_committed_at"],
    }
