"""Which row of the fact a row of the hourly table was made of: the column `origin`.

In Spark and without it, from a read that has more columns than the result: row_xid, the transaction
that wrote the fact's row (32 bits); and row_committed_at, null when the database does not track
that.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from psycopg import sql

from lockstep.cdc.cuts import XID_SPAN, DatabaseSnapshot

if TYPE_CHECKING:
    from pyspark.sql import Column


ROW_XID, ROW_COMMITTED_AT = "row_xid", "row_committed_at"


def origin_reads(fact: str) -> list[sql.Composed]:
    """What PostgreSQL gives for both columns. fact: what the table is called in the query."""
    xmin = sql.Identifier(fact, "xmin")
    return [
        sql.SQL("{}::text::bigint AS {}").format(xmin, sql.Identifier(ROW_XID)),
        sql.SQL(
            "CASE WHEN current_setting('track_commit_timestamp')::boolean "
            "THEN pg_xact_commit_timestamp({}) END AS {}"
        ).format(xmin, sql.Identifier(ROW_COMMITTED_AT)),
    ]


def origin_column(snapshot: DatabaseSnapshot) -> "Column":
    """The column of the rows of a read.

    The row's transaction is one of the 2^32 before the snapshot's next one (xmax), which gives the
    number that the row has of it the upper half.
    """
    from pyspark.sql import functions as F  # noqa: N812

    xmax = F.lit(snapshot.xmax)
    return F.struct(
        (xmax - F.pmod(xmax - F.col(ROW_XID), F.lit(XID_SPAN))).alias("tx_id"),
        F.col(ROW_COMMITTED_AT).alias("committed_at"),
    ).alias("origin")


def origin_value(read: Mapping[str, Any], snapshot: DatabaseSnapshot) -> dict[str, Any]:
    """The same of one row."""
    return {
        "tx_id": snapshot.full_tx_id(read[ROW_XID]),
        "committed_at": read[ROW_COMMITTED_AT],
    }
