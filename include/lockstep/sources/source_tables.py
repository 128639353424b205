"""A pipeline's tables as one snapshot of its source has them, for Spark and for checks before it.

Of each table the columns that the plan reads, with exactly the types of the plan: the values are
those that the stream's decoder gives for the same rows. What that decoder refuses is looked for by
PostgreSQL first, in the same snapshot, so that it never becomes another value. How a column is sent
is in column_reads.py.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from psycopg import sql

from lockstep.cdc.cuts import ExportedSnapshot
from lockstep.contracts import Window
from lockstep.pipeline.plan import Plan, PlannedTable
from lockstep.pipeline.types import ddl
from lockstep.sources.column_reads import (
    in_range,
    instant,
    out_of_time,
    received,
    refused,
    sent,
    why_refused,
)
from lockstep.sources.errors import SourceValueError
from lockstep.sources.postgres import RoleConnection
from lockstep.sources.snapshot_jdbc import SnapshotJdbc
from lockstep.sources.window_slices import SlotCount, slice_window, slot_length

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_OPTIONS = {"pushDownPredicate": "false"}
"""A condition of the author's on a text is Spark's, by code points, and not of a collation."""
_WHOLE = sql.SQL("true")
_SLICED_BY = "sliced_by"


class SourceReader:
    """DataFrames over a plan's tables that all see one snapshot.

    The exporting transaction must stay open until the last partition has begun to read. A read
    raises SourceValueError with table, column and remedy for a value that cannot be read exactly,
    before Spark reads anything of the table.
    """

    def __init__(
        self, spark: "SparkSession", target: RoleConnection, exported: ExportedSnapshot
    ) -> None:
        self._spark, self._exported = spark, exported
        self._jdbc = SnapshotJdbc(spark, target, exported, _OPTIONS)

    def whole(self, table: PlannedTable) -> "DataFrame":
        """All rows of a table, in one partition."""
        self._require_exact(table, _WHOLE)
        return self._read(table, _query(table, _WHOLE), ["true"])

    def facts(self, plan: Plan, window: Window, slice_rows: int) -> "DataFrame":
        """The rows of the fact whose `plan.fact_time` is in the window, in slices of that time.

        slice_rows: rows that a slice, which one task reads, should have at the most. Raises
        SourceValueError also when the fact has rows that are in no window.
        """
        fact, column = plan.fact, plan.fact_time
        self._require_times(plan)
        self._require_exact(fact, _in(fact, column, window))
        slices = slice_window(
            window,
            self._slots(fact, column, window),
            rows_max=slice_rows,
            slices_min=self._spark.sparkContext.defaultParallelism,
        )
        by = sql.SQL("{} AS {}").format(
            instant(column, fact.types[column]), sql.Identifier(_SLICED_BY)
        )
        query = _query(fact, _in(fact, column, window), by)
        return self._read(fact, query, [_between(part) for part in slices])

    def _require_times(self, plan: Plan) -> None:
        fact, column = plan.fact, plan.fact_time
        query = sql.SQL("SELECT count(*) FROM {table} WHERE {out_of_time}").format(
            table=_name(fact), out_of_time=out_of_time(column, fact.types[column])
        )
        (rows,) = self._exported.connection.execute(query).fetchone()
        if rows:
            raise SourceValueError(
                f"pipeline {plan.name}: {rows:,} rows of {fact.name} have a time that no window "
                f"holds ({column} is null, infinity, BC or after the year 9999), and `time` is "
                f"{plan.time}: give these rows a time, and declare {column} NOT NULL"
            )

    def _slots(self, fact: PlannedTable, column: str, window: Window) -> list[SlotCount]:
        """The fact's rows in each filled slot of the window, in time order."""
        query = sql.SQL(
            "SELECT date_bin({slot}, {instant}, {start}) AS slot_start, count(*) FROM {table} "
            "WHERE {in_window} GROUP BY slot_start ORDER BY slot_start"
        ).format(
            slot=sql.Literal(slot_length(window)),
            instant=instant(column, fact.types[column]),
            start=sql.Literal(window.start),
            table=_name(fact),
            in_window=_in(fact, column, window),
        )
        return [SlotCount(*row) for row in self._exported.connection.execute(query)]

    def _read(
        self, table: PlannedTable, query: sql.Composable, predicates: Sequence[str]
    ) -> "DataFrame":
        """Raises TypeError should a column not have the type that the plan says."""
        sent_rows = self._jdbc.read(query, "source_table", predicates)
        columns = [
            received(sent_rows[_sent_name(place)], type_).alias(name)
            for place, (name, type_) in enumerate(table.types.items())
        ]
        rows = sent_rows.select(columns)
        expected = sent_rows.sparkSession.createDataFrame([], ddl(table.types)).dtypes
        if rows.dtypes != expected:
            raise TypeError(f"table {table.name}: read as {rows.dtypes}, planned as {expected}")
        return rows

    def _require_exact(self, table: PlannedTable, rows: sql.Composable) -> None:
        conditions = {name: refused(name, type_) for name, type_ in table.types.items()}
        columns = [name for name, condition in conditions.items() if condition is not None]
        if not columns:
            return
        counts = (
            sql.SQL("count(*) FILTER (WHERE {})").format(conditions[name]) for name in columns
        )
        query = sql.SQL("SELECT {counts} FROM {table} WHERE {rows}").format(
            counts=sql.SQL(", ").join(counts), table=_name(table), rows=rows
        )
        found = self._exported.connection.execute(query).fetchone()
        for name, count in zip(columns, found, strict=True):
            if count:
                type_ = table.types[name]
                raise SourceValueError(
                    f"table {table.name}, column {name}: {count:,} values of type {type_.pg} "
                    f"cannot be kept exactly ({why_refused(type_)}): change these rows, or leave "
                    "the column out of the query"
                )


def _query(table: PlannedTable, rows: sql.Composable, *more: sql.Composable) -> sql.Composable:
    columns = (
        sql.SQL("{} AS {}").format(sent(name, type_), sql.Identifier(_sent_name(place)))
        for place, (name, type_) in enumerate(table.types.items())
    )
    return sql.SQL("SELECT {columns} FROM {table} WHERE {rows}").format(
        columns=sql.SQL(", ").join([*columns, *more]), table=_name(table), rows=rows
    )


def _sent_name(place: int) -> str:
    """By the column's place: Spark quotes any name, but escapes none."""
    return f"c{place}"


def _name(table: PlannedTable) -> sql.Identifier:
    return sql.Identifier(table.name.schema, table.name.name)


def _in(fact: PlannedTable, column: str, window: Window) -> sql.Composable:
    return in_range(column, fact.types[column], window.start, window.end)


def _between(part: Window) -> str:
    condition = sql.SQL("{by} >= {start} AND {by} < {end}").format(
        by=sql.Identifier(_SLICED_BY),
        start=sql.Literal(part.start),
        end=sql.Literal(part.end),
    )
    return condition.as_string()
