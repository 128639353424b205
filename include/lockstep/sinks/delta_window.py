"""Replaces one window of a Delta table in a single commit."""

from datetime import timedelta
from typing import TYPE_CHECKING

from lockstep.contracts import Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PARTITION_COLUMN = "order_date"


def replace_window(rows: "DataFrame", table_uri: str, window: Window, commit_metadata: str) -> None:
    """Make `rows` the table's only rows of the window, and leave every other row as it is.

    rows: with order_time (all inside the window, or Delta refuses them) and order_date. The table
        is created, partitioned by order_date, when it is not there.
    commit_metadata: goes into the commit's userMetadata, as it is.

    One atomic commit: a process killed at any moment leaves the table as it was. Writing the same
    window again replaces it, so a retry is harmless.
    """
    (
        rows.write.format("delta")
        .mode("overwrite")
        .partitionBy(PARTITION_COLUMN)
        .option("replaceWhere", _inside(window))
        .option("userMetadata", commit_metadata)
        .save(table_uri)
    )


def _inside(window: Window) -> str:
    # The dates let Delta find the files by their folders, without opening any.
    last_instant = window.end - timedelta(microseconds=1)
    return (
        f"{PARTITION_COLUMN} >= DATE '{window.start:%Y-%m-%d}' "
        f"AND {PARTITION_COLUMN} <= DATE '{last_instant:%Y-%m-%d}' "
        f"AND order_time >= TIMESTAMP '{window.start.isoformat()}' "
        f"AND order_time < TIMESTAMP '{window.end.isoformat()}'"
    )
