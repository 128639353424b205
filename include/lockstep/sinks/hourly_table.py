"""A pipeline's hourly table: its columns, and the replacement of a window's rows or of all.

Which columns a pipeline's table has, and what is in them, is the caller's.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from lockstep.errors import LakehouseError
from lockstep.model.window import Window
from lockstep.pipeline.delta_types import arrow_schema
from lockstep.pipeline.names import quoted
from lockstep.pipeline.plan import Plan
from lockstep.pipeline.result_tables import HOURLY_COLUMNS, HOURLY_PARTITION
from lockstep.sinks.delta_commits import translate_delta_errors
from lockstep.sinks.delta_rows import replace
from lockstep.sinks.local_lakehouse import local_folder
from lockstep.sinks.window_conditions import inside, inside_for_write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_DAY = timedelta(days=1)
BULK_FILE_ROWS_MAX = 100_000
"""Rows of a file of a window of days: what replacing an hour of it reads and writes again."""
COLLECTED_ROWS_MAX = 20_000
"""Rows that go through this process's memory. Spark's own replacement of an hour is three more
jobs, which take longer than the rows do: docs/decisions/batch.md."""


def open_table(
    spark: "SparkSession",
    table_uri: str,
    columns: Mapping[str, str],
    partition: str | None,
    added: Collection[str] = (),
) -> DeltaTable | None:
    """The local table as it is now; None where there is none, or where it is in an object store.

    Raises LakehouseError unless the table, if it is there, has just these columns.

    columns: the type of each, as Spark writes it. partition: the one column of its partitions.
    added: columns that a table of before may lack; the next run adds them.
    """
    table = None
    if local_folder(table_uri) is not None:
        table = DeltaTable(table_uri) if DeltaTable.is_deltatable(table_uri) else None
        layout = None if table is None else _layout(table)
    else:
        layout = _layout_by_spark(spark, table_uri)
    differences = [] if layout is None else _differences(*layout, columns, partition, added)
    if differences:
        raise LakehouseError(
            f"the table {table_uri} is of another query: {'; '.join(differences)}; `lockstep "
            "pipeline apply` empties it for that; then run its windows again"
        )
    return table


def columns_of(plan: Plan, result: Mapping[str, str]) -> dict[str, str]:
    """The type of each column that the pipeline's hourly table is to have, in their order.

    result: of each of the author's columns.
    """
    if partition_of(plan) is None:
        others = {name: kind for name, kind in HOURLY_COLUMNS.items() if name != HOURLY_PARTITION}
        return {**result, **others}
    return {**result, **HOURLY_COLUMNS, **plan.origin_columns}


def partition_of(plan: Plan) -> str | None:
    """The column of the hourly table's partitions; None of a result without a time."""
    return HOURLY_PARTITION if plan.time else None


def has_layout(table: DeltaTable, plan: Plan) -> bool:
    """Whether the next run can write to the table. Raises PipelineError without a result.lock."""
    columns = columns_of(plan, plan.result.columns)
    return not _differences(*_layout(table), columns, partition_of(plan), plan.origin_columns)


def begin_with(table_uri: str, columns: Mapping[str, str], partition: str | None) -> None:
    """Empty the table, and give it other columns, in one commit. The caller is its one writer.

    Readers of an older version go on reading it, for as long as it is kept. Raises LakehouseError.
    """
    with translate_delta_errors(table_uri):
        write_deltalake(
            table_uri,
            arrow_schema(columns).empty_table(),
            mode="overwrite",
            schema_mode="overwrite",
            partition_by=None if partition is None else [partition],
        )


def _differences(
    found: Mapping[str, str],
    partitions: Sequence[str],
    columns: Mapping[str, str],
    partition: str | None,
    added: Collection[str],
) -> list[str]:
    """found, partitions: what the table has, and columns, partition, added as in open_table."""
    differences = [
        f"{name} is {found.get(name, 'not there')} and should be {columns.get(name, 'not there')}"
        for name in dict.fromkeys([*columns, *found])
        if found.get(name) != columns.get(name) and not (name in added and name not in found)
    ]
    if partitions != ([] if partition is None else [partition]):
        differences.append(f"its partitions are by {', '.join(partitions) or 'nothing'}")
    return differences


def _layout(table: DeltaTable) -> tuple[dict[str, str], list[str]]:
    """The type of each column, and the columns of the partitions.

    Without Spark, which takes a second for it.
    """
    from pyspark.sql.types import StructType

    schema = StructType.fromJson(json.loads(table.schema().to_json()))
    types = {field.name: field.dataType.simpleString() for field in schema}
    return types, table.metadata().partition_columns


def _layout_by_spark(
    spark: "SparkSession", table_uri: str
) -> tuple[dict[str, str], list[str]] | None:
    """The same of a table in an object store, whose credentials are Spark's; None without one."""
    from delta.tables import DeltaTable as SparkDeltaTable

    if not SparkDeltaTable.isDeltaTable(spark, table_uri):
        return None
    of_spark = SparkDeltaTable.forPath(spark, table_uri)
    return dict(of_spark.toDF().dtypes), of_spark.detail().first()["partitionColumns"]


def can_collect(
    table: DeltaTable, columns: Mapping[str, str], time: str, window: Window, count: int
) -> bool:
    """Whether delta-rs can replace the window's rows, from the memory of this process.

    columns: the type of each of the rows' columns. count: how many rows there are, or nearly.

    delta-rs creates no columns in a replacement: it checks the rows that stay against the replaced
    window. Its conditions are on instants.
    """
    if window.end - window.start > _DAY or count > COLLECTED_ROWS_MAX:
        return False
    there = {field.name for field in table.schema().fields}
    return there.issuperset(columns) and columns[time] == "timestamp"


def replace_collected(
    table: DeltaTable, rows: pa.Table, time: str, window: Window, metadata: str
) -> None:
    """As replace_window, where can_collect says so. Raises LakehouseError.

    rows: at least one; delta-rs replaces nothing by no rows.
    """
    replace(table, rows, inside_for_write(window, quoted(time)), metadata)


def replace_window(
    rows: "DataFrame", table_uri: str, time: str, window: Window, metadata: str
) -> None:
    """Make `rows` the table's only rows of the window, in one commit; other rows stay.

    rows: all inside the window, or Delta refuses them; with HOURLY_PARTITION, the UTC day of
        `time`. The table is created when it is not there, and gets columns that it does not have
        yet; they are null in the rows that stay.
    metadata: of the commit, as it is.

    A process killed at any moment leaves the table as it was; the same window again replaces it.
    Files of other days are neither opened nor written, and a file that holds no row outside of the
    window is removed. A window of hours is one file, or a file for each task. One of days is
    sorted, and has a file for each day: docs/decisions/batch.md.

    Raises Spark's error when the rows cannot be written.
    """
    is_of_days = window.end - window.start > _DAY
    if is_of_days:
        sorted_by = (HOURLY_PARTITION, quoted(time))
        rows = rows.repartition(HOURLY_PARTITION).sortWithinPartitions(*sorted_by)
    (
        rows.write.format("delta")
        .mode("overwrite")
        .partitionBy(HOURLY_PARTITION)
        .option("replaceWhere", inside(window, quoted(time)))
        .option("userMetadata", metadata)
        .option("mergeSchema", "true")
        .option("maxRecordsPerFile", BULK_FILE_ROWS_MAX if is_of_days else 0)
        .save(table_uri)
    )


def replace_all(rows: "DataFrame", table_uri: str, metadata: str) -> None:
    """Make `rows` the table's only rows, in one commit; otherwise as replace_window."""
    rows.write.format("delta").mode("overwrite").option("userMetadata", metadata).save(table_uri)
