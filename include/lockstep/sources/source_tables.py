"""A pipeline's tables as one snapshot of its source has them, for Spark.

Of each table the columns that the plan reads, with exactly the types of the plan: the values are
those that the stream's decoder gives for the same rows. What that decoder refuses is looked for by
PostgreSQL first, in the same snapshot, so that it never becomes another value. How a column is sent
is in column_reads.py.
"""

import math
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from psycopg import sql

from lockstep.cdc.cuts import ExportedSnapshot
from lockstep.model.window import Window
from lockstep.pipeline.plan import Plan, PlannedTable
from lockstep.sources.column_reads import (
    ColumnRead,
    inside,
    local_times,
    near,
    out_of_time,
    why_refused,
)
from lockstep.sources.errors import SourceValueError
from lockstep.sources.origin import origin_reads, origin_reads_names
from lockstep.sources.postgres import RoleConnection
from lockstep.sources.referred_rows import ROWS_READ_WHOLE, referred_rows
from lockstep.sources.sent_columns import received_rows, sent_query
from lockstep.sources.slot_counts import CountedRows, count_slots
from lockstep.sources.snapshot_jdbc import SnapshotJdbc, between
from lockstep.sources.window_slices import SlotCount, slice_window
from lockstep.sources.zone_clock import ZoneClock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_OPTIONS = {"pushDownPredicate": "false"}
"""A condition of the author's on a text is Spark's, by code points, and not of a collation."""
_ALL = sql.SQL("true")
_SLICED_BY = "sliced_by"
BROADCAST_ROWS_MAX = 200_000
"""Rows that may be sent whole to every task, of a side of a join or of origins: some 20 MB."""


class SourceReader:
    """DataFrames over a plan's tables that all see one snapshot.

    The exporting transaction must stay open until the last partition has begun to read. A read
    raises SourceValueError with table, column and remedy for a value that cannot be read exactly,
    before Spark reads anything of the table.
    """

    def __init__(
        self, spark: "SparkSession", target: RoleConnection, exported: ExportedSnapshot
    ) -> None:
        self._spark, self._connection = spark, exported.connection
        self._jdbc = SnapshotJdbc(spark, target, exported, _OPTIONS)

    def whole(self, table: PlannedTable) -> "DataFrame":
        """All rows of a table, in one partition."""
        return self._in_one(table, _ALL)

    def referred(self, plan: Plan, table: PlannedTable, window: Window, facts: int) -> "DataFrame":
        """The rows of a table that the window's facts lead to, in one partition.

        All rows of a small table, and where PostgreSQL cannot say which these are. JDBC says
        nothing of sizes to Spark, so a side of a join that is small says so.

        facts: how many there are.
        """
        is_small = self._rows_estimated(table) <= ROWS_READ_WHOLE
        found = None if is_small else referred_rows(plan, table.name, window)
        rows = self._in_one(table, found or _ALL)
        leads_to_few = found is not None and facts <= BROADCAST_ROWS_MAX and _is_one(plan, table)
        return rows.hint("broadcast") if leads_to_few or self._has_few(table) else rows

    def _in_one(self, table: PlannedTable, rows: sql.Composable) -> "DataFrame":
        columns = self._exact_columns(table, rows)
        return self._read(table, columns, sent_query(_name(table), columns, rows), ["true"])

    def _has_few(self, table: PlannedTable) -> bool:
        """Counted: an estimate may be of before a table was filled."""
        query = sql.SQL("SELECT count(*) FROM (SELECT FROM {} LIMIT {}) AS few").format(
            _name(table), sql.Literal(BROADCAST_ROWS_MAX + 1)
        )
        (rows,) = self._connection.execute(query).fetchone()
        return rows <= BROADCAST_ROWS_MAX

    def _rows_estimated(self, table: PlannedTable) -> float:
        """As the last ANALYZE or VACUUM found; infinite where there was none."""
        query = sql.SQL("SELECT reltuples FROM pg_class WHERE oid = {}::regclass").format(
            sql.Literal(_name(table).as_string())
        )
        (rows,) = self._connection.execute(query).fetchone()
        return rows if rows >= 0 else math.inf

    def facts(self, plan: Plan, window: Window, slice_rows: int) -> CountedRows:
        """The rows of the fact whose `plan.fact_time` is in the window, in slices of that time.

        They have what sources/origin.py reads as well.

        slice_rows: rows that a slice, which one task reads, should have at the most. Raises
        SourceValueError also when the fact has rows that are in no window.
        """
        fact, name = plan.fact, plan.fact_time
        self._require_times(plan)
        columns = self._exact_columns(fact, near(name, fact.types[name], window))
        time = next(one for one in columns if one.name == name)
        counts = self._slots(fact, time, window)
        slices = slice_window(
            window,
            counts,
            rows_max=slice_rows,
            slices_min=self._spark.sparkContext.defaultParallelism,
        )
        by = sql.SQL("{} AS {}").format(time.instant, sql.Identifier(_SLICED_BY))
        more = [by, *origin_reads(fact.name.name, plan)]
        query = sent_query(_name(fact), columns, inside(time, window), more)
        slices_of_time = [between(_SLICED_BY, part) for part in slices]
        read = self._read(fact, columns, query, slices_of_time, origin_reads_names(plan))
        return CountedRows(read, sum(slot.rows for slot in counts))

    def count_facts(self, plan: Plan, window: Window) -> int | None:
        """How many rows of the fact the window has, which `facts` reads.

        None where no column of it says which these are.
        """
        fact, name = plan.fact, plan.fact_time
        if name is None:
            return None
        time = self._column(fact, name, near(name, fact.types[name], window))
        return sum(slot.rows for slot in self._slots(fact, time, window))

    def _slots(self, fact: PlannedTable, time: ColumnRead, window: Window) -> list[SlotCount]:
        rows = inside(time, window)
        return count_slots(self._connection, window, _name(fact), time.instant, rows)

    def _read(
        self,
        table: PlannedTable,
        columns: Sequence[ColumnRead],
        query: sql.Composable,
        predicates: Sequence[str],
        kept: Sequence[str] = (),
    ) -> "DataFrame":
        """Raises TypeError should a column not have the type that the plan says."""
        rows = received_rows(self._jdbc.read(query, "source_table", predicates), columns, kept)
        expected = [(name, type_.delta) for name, type_ in table.types.items()]
        if (found := rows.dtypes[: len(expected)]) != expected:
            raise TypeError(f"table {table.name}: read as {found}, planned as {expected}")
        return rows

    def _exact_columns(self, table: PlannedTable, rows: sql.Composable) -> list[ColumnRead]:
        """The table's columns, none of which has a value in these rows that cannot be read."""
        columns = [self._column(table, name, rows) for name in table.types]
        self._require_exact(table, [one for one in columns if one.refused is not None], rows)
        return columns

    def _column(self, table: PlannedTable, name: str, rows: sql.Composable) -> ColumnRead:
        """The column, for its values in these rows."""
        type_ = table.types[name]
        return ColumnRead(name, type_, self._clock(table, name, rows) if type_.time_zone else None)

    def _clock(self, table: PlannedTable, column: str, rows: sql.Composable) -> ZoneClock:
        """For all the local times that these rows have in the years 1 to 9999."""
        type_ = table.types[column]
        query = sql.SQL(
            "SELECT min(at), max(at) FROM {table} CROSS JOIN LATERAL unnest({times}) AS times (at) "
            "WHERE {rows} AND at BETWEEN {first} AND {last}"
        ).format(
            table=_name(table),
            times=local_times(column, type_),
            rows=rows,
            first=sql.Literal(datetime.min),
            last=sql.Literal(datetime.max),
        )
        first, last = self._connection.execute(query).fetchone()
        return ZoneClock.of(type_.time_zone, first or datetime.min, last or datetime.min)

    def _require_exact(
        self, table: PlannedTable, columns: Sequence[ColumnRead], rows: sql.Composable
    ) -> None:
        if not columns:
            return
        counts = (sql.SQL("count(*) FILTER (WHERE {})").format(one.refused) for one in columns)
        query = sql.SQL("SELECT {counts} FROM {table} WHERE {rows}").format(
            counts=sql.SQL(", ").join(counts), table=_name(table), rows=rows
        )
        found = self._connection.execute(query).fetchone()
        for column, count in zip(columns, found, strict=True):
            if count:
                raise SourceValueError(
                    f"table {table.name}, column {column.name}: {count:,} values of type "
                    f"{column.type.pg} cannot be kept exactly ({why_refused(column.type)}): change "
                    "these rows, or leave the column out of the query"
                )

    def _require_times(self, plan: Plan) -> None:
        fact, column = plan.fact, plan.fact_time
        query = sql.SQL("SELECT count(*) FROM {table} WHERE {out_of_time}").format(
            table=_name(fact), out_of_time=out_of_time(column, fact.types[column])
        )
        (rows,) = self._connection.execute(query).fetchone()
        if rows:
            raise SourceValueError(
                f"pipeline {plan.name}: {rows:,} rows of {fact.name} have a time that no window "
                f"holds ({column} is null, infinity, BC or after the year 9999), and `time` is "
                f"{plan.time}: give these rows a time, and declare {column} NOT NULL"
            )


def _is_one(plan: Plan, table: PlannedTable) -> bool:
    """Whether a fact leads to one row of the table at the most."""
    if table is plan.fact:
        return True
    steps = [step for step in plan.steps if step.table == table.name]
    return (
        len(steps) == 1
        and not steps[0].is_element
        and set(table.key) <= set(steps[0].columns)
        and steps[0].from_table != table.name
        and _is_one(plan, plan.tables[steps[0].from_table])
    )


def _name(table: PlannedTable) -> sql.Identifier:
    return sql.Identifier(table.name.schema, table.name.name)
