"""Replaces one window of a Delta table in a single commit.

The table is partitioned by date and hour, so a window of whole hours is replaced by its partitions'
names alone: Delta neither opens nor rewrites a file, and replacing costs what writing does.
"""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from lockstep.model.window import Window
from lockstep.pizzeria import ORDERS_ENRICHED_BATCH_PARTITIONS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_DATE, _HOUR = ORDERS_ENRICHED_BATCH_PARTITIONS
HOUR = timedelta(hours=1)


def replace_window(rows: "DataFrame", table_uri: str, window: Window, commit_metadata: str) -> None:
    """Make `rows` the table's only rows of the window, and leave every other row as it is.

    rows: with order_time (all inside the window, or Delta refuses them), order_date and
        order_hour, by which the table is partitioned. It is created when it is not there, and
        gets columns that it does not have yet; they are null in the rows that stay.
    commit_metadata: goes into the commit's userMetadata, as it is.

    One atomic commit: a process killed at any moment leaves the table as it was. Writing the same
    window again replaces it, so a retry is harmless.
    """
    (
        rows.write.format("delta")
        .mode("overwrite")
        .partitionBy(*ORDERS_ENRICHED_BATCH_PARTITIONS)
        .option("replaceWhere", inside(window))
        .option("userMetadata", commit_metadata)
        .option("mergeSchema", "true")
        .save(table_uri)
    )


def inside(window: Window) -> str:
    """The condition for a row of the window; on partition columns alone for whole hours."""
    first = _hour_of(window.start)
    last = _hour_of(window.end - timedelta(microseconds=1))
    partitions = (
        f"({_DATE} > DATE '{first:%Y-%m-%d}' "
        f"OR {_DATE} = DATE '{first:%Y-%m-%d}' AND {_HOUR} >= {first.hour}) "
        f"AND ({_DATE} < DATE '{last:%Y-%m-%d}' "
        f"OR {_DATE} = DATE '{last:%Y-%m-%d}' AND {_HOUR} <= {last.hour})"
    )
    if (first, last + HOUR) == (window.start, window.end):
        return partitions
    return f"{partitions} AND {of_time(window)}"


def of_time(window: Window, time: str = "order_time") -> str:
    """The same of a table with other partitions; for Spark and for DataFusion, as `inside` is.

    time: the column in SQL.
    """
    return (
        f"{time} >= TIMESTAMP '{window.start.isoformat()}' "
        f"AND {time} < TIMESTAMP '{window.end.isoformat()}'"
    )


def _hour_of(instant: datetime) -> datetime:
    return instant.replace(minute=0, second=0, microsecond=0)
