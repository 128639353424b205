"""A pipeline's hourly table: its columns, and the replacement of a window's rows or of all.

Which columns a pipeline's table has, and what is in them, is the caller's.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from lockstep.errors import LakehouseError
from lockstep.model.window import Window
from lockstep.pipeline.names import quoted
from lockstep.sinks.delta_window import of_time

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class WindowColumns:
    """time: the column that says which window a row is in; date: its UTC day, the partition."""

    time: str
    date: str

    def holds(self, window: Window) -> str:
        """The condition for a row of the window, first by its partition, for Spark."""
        last = window.end - timedelta(microseconds=1)
        return (
            f"{quoted(self.date)} >= DATE '{window.start:%Y-%m-%d}' "
            f"AND {quoted(self.date)} <= DATE '{last:%Y-%m-%d}' "
            f"AND {of_time(window, quoted(self.time))}"
        )


def require_columns(
    spark: "SparkSession", table_uri: str, columns: Mapping[str, str], partition: str | None
) -> None:
    """Raise LakehouseError unless the table, if it is there, has just these columns.

    columns: the type of each, as Spark writes it. partition: the one column of its partitions.
    """
    from delta.tables import DeltaTable

    if not DeltaTable.isDeltaTable(spark, table_uri):
        return
    table = DeltaTable.forPath(spark, table_uri)
    found = dict(table.toDF().dtypes)
    partitions = table.detail().first()["partitionColumns"]
    differences = [
        f"{name} is {found.get(name, 'not there')} and should be {columns.get(name, 'not there')}"
        for name in dict.fromkeys([*columns, *found])
        if found.get(name) != columns.get(name)
    ]
    if partitions != ([] if partition is None else [partition]):
        differences.append(f"its partitions are by {', '.join(partitions) or 'nothing'}")
    if differences:
        raise LakehouseError(
            f"the table {table_uri} is of another query: {'; '.join(differences)}; move it away "
            "and run its windows again, or give the pipeline with the changed query another name"
        )


def replace_window(
    rows: "DataFrame", table_uri: str, columns: WindowColumns, window: Window, metadata: str
) -> None:
    """Make `rows` the table's only rows of the window, in one commit; other rows stay.

    rows: all inside the window, or Delta refuses them. metadata: of the commit, as it is. The table
    is created when it is not there. Files of other days are neither opened nor written. A process
    killed at any moment leaves the table as it was; the same window again replaces it.
    """
    (
        rows.write.format("delta")
        .mode("overwrite")
        .partitionBy(columns.date)
        .option("replaceWhere", columns.holds(window))
        .option("userMetadata", metadata)
        .save(table_uri)
    )


def replace_all(rows: "DataFrame", table_uri: str, metadata: str) -> None:
    """Make `rows` the table's only rows, in one commit; otherwise as replace_window."""
    rows.write.format("delta").mode("overwrite").option("userMetadata", metadata).save(table_uri)
