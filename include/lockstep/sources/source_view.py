"""A pipeline's view as one snapshot of its source has it, for Spark: the result, by PostgreSQL.

Of the view the columns of the result, with exactly the types of result.lock. A column whose type
may have other values is refused before anything is read, and a value that the result's type cannot
hold is looked for by PostgreSQL first, in the same snapshot. Arrays, structs and maps come as JSON
text: what is wrong inside of them is found when Spark parses it, or not at all (docs/pipelines.md).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from lockstep.cdc.cuts import ExportedSnapshot
from lockstep.model.window import Window
from lockstep.pipeline.catalog import TableName
from lockstep.pipeline.delta_types import arrow_type, is_nested
from lockstep.pipeline.errors import CatalogError, PipelineError
from lockstep.pipeline.names import text_literal
from lockstep.pipeline.plan import Plan
from lockstep.pipeline.project_files import PIPELINE_FILE, PIPELINES
from lockstep.pipeline.type_table import ValueType
from lockstep.sources.column_reads import ColumnRead, out_of_time, why_refused
from lockstep.sources.errors import SourceValueError
from lockstep.sources.origin import origin_columns_read, origin_reads, origin_reads_names
from lockstep.sources.postgres import RoleConnection
from lockstep.sources.readiness import require_rights
from lockstep.sources.sent_columns import received_rows, sent_query
from lockstep.sources.slot_counts import count_slots
from lockstep.sources.snapshot_jdbc import SnapshotJdbc, between
from lockstep.sources.window_slices import SlotCount, slice_window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_COLUMNS = Path(__file__).with_name("catalog_reads") / "view_columns.sql"
_OPTIONS = {"pushDownPredicate": "false"}
_ALL = sql.SQL("true")
_SLICED_BY = "sliced_by"
_MODIFIERS = re.compile(r"\([\d,]+\)")
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_MADE_OF = {
    "smallint": ("smallint",),
    "int": ("smallint", "integer"),
    "bigint": ("smallint", "integer", "bigint"),
    "decimal": ("numeric", "smallint", "integer", "bigint"),
    "float": ("real",),
    "double": ("real", "double precision"),
    "boolean": ("boolean",),
    "binary": ("bytea",),
    "date": ("date",),
    "timestamp": ("timestamp with time zone",),
}
"""By Delta's type those of PostgreSQL that have no other values but what `refused` finds. Text is
made of any type, and so is JSON."""


@dataclass(frozen=True)
class ViewColumn:
    """A column of the result. pg: its type in the view. delta: its type in the result."""

    name: str
    pg: str
    delta: str

    @property
    def is_readable(self) -> bool:
        """Whether no value of the view's type becomes another one."""
        may_be = _MADE_OF.get(self.delta.partition("(")[0])
        return is_nested(self.delta) or may_be is None or _MODIFIERS.sub("", self.pg) in may_be

    @property
    def remedy(self) -> str:
        """What to do where it is not readable."""
        if self.pg == "timestamp without time zone":
            return (
                "make an instant of it in the view, by AT TIME ZONE with the zone that "
                "`time_zones` of the manifest gives its column, or read the tables alone"
            )
        if self.delta == "double" and self.pg in ("smallint", "integer", "bigint"):
            return "write DIV for / in query.sql where it divides integers, or CAST it in the view"
        return "CAST it in the view"

    @property
    def sent(self) -> sql.Composable:
        """What PostgreSQL sends; `received` makes the value of it."""
        if not is_nested(self.delta):
            return self._read.sent
        value = sql.Identifier(self.name)
        json = value if self.pg in ("json", "jsonb") else sql.SQL("to_json({})").format(value)
        return sql.SQL("CAST({} AS text)").format(json)

    def received(self, sent: str) -> str:
        """The value of what was sent, in Spark's SQL; which fails over a JSON text that is none of
        the type."""
        if not is_nested(self.delta):
            return self._read.received(sent)
        return f"from_json({sent}, {text_literal(self.delta)}, map('mode', 'FAILFAST'))"

    @property
    def published(self) -> sql.Composable:
        """The same value in a row for row_to_json, as pipeline/published_rows.py decodes it.

        In a session with time zone UTC.
        """
        value = sql.Identifier(self.name)
        if is_nested(self.delta):
            return value  # row_to_json makes of it what to_json does
        if self.delta == "string":
            return self.sent
        if self.delta == "binary":
            # PostgreSQL puts base64 in lines.
            return sql.SQL("translate(encode({}, 'base64'), E'\\n', '')").format(value)
        return value

    @property
    def refused(self) -> sql.Composable | None:
        """The condition that there is a value that the type cannot hold; None for no condition."""
        found = _DECIMAL.fullmatch(self.delta)
        if found is None:
            return None if is_nested(self.delta) else self._read.refused
        precision, scale = map(int, found.groups())
        return sql.SQL("(abs({value}) >= {limit} OR {value} <> round({value}, {scale}))").format(
            value=sql.SQL("CAST({} AS numeric)").format(sql.Identifier(self.name)),
            limit=sql.SQL(f"1e{precision - scale}"),
            scale=sql.Literal(scale),
        )

    @property
    def why_refused(self) -> str:
        return f"no {self.delta}" if _DECIMAL.fullmatch(self.delta) else why_refused(self.type)

    @property
    def type(self) -> ValueType:
        return ValueType(self.pg, self.delta, arrow_type(self.delta), None)

    @property
    def _read(self) -> ColumnRead:
        return ColumnRead(self.name, self.type)


def view_columns(connection: psycopg.Connection, plan: Plan, role: str) -> list[ViewColumn]:
    """The result's columns as the view has them, all of which `role` may read and Spark can hold.

    Raises PipelineError when the manifest names no view or there is no result.lock, CatalogError
    when the database's view is of another shape, and PostgresUnavailableError without the right.
    """
    view = view_of(plan)
    values = {"schema": view.schema, "view": view.name}
    types = dict(connection.execute(_COLUMNS.read_text(encoding="utf-8"), values).fetchall())
    if not types:
        raise CatalogError(
            f"the database of source {plan.source} has no view {view}, which pipeline {plan.name} "
            "names: create it, or read the tables (`--read tables`)"
        )
    if missing := [name for name in plan.result.columns if name not in types]:
        raise CatalogError(
            f"view {view} lacks {', '.join(missing)}, which query.sql of pipeline {plan.name} "
            "gives: let the view give the same columns"
        )
    columns = [ViewColumn(name, types[name], kind) for name, kind in plan.result.columns.items()]
    for one in columns:
        if not one.is_readable:
            raise CatalogError(
                f"view {view}, column {one.name}: the database has {one.pg}, and query.sql of "
                f"pipeline {plan.name} gives {one.delta}: {one.remedy}"
            )
    require_rights(connection, view, list(plan.result.columns), role)
    return columns


def view_of(plan: Plan) -> TableName:
    """The view that the manifest names. Raises PipelineError when it names none."""
    if plan.manifest.view is None:
        raise PipelineError(
            f'pipeline {plan.name} has no view to read: write `view = "schema.view"` in '
            f"{PIPELINES / plan.name / PIPELINE_FILE}, a view of the query's rows in PostgreSQL, "
            "or read the tables (`--read tables`)"
        )
    return plan.manifest.view


def columns_of_tables(plan: Plan) -> dict[TableName, set[str]]:
    """The columns of tables that the run of a window reads as well: for the origin of each row, and
    to count the window's facts."""
    if plan.time is None:
        return {}
    columns = origin_columns_read(plan)
    if plan.fact_time is not None:
        columns[plan.fact.name].add(plan.fact_time)
    return columns


def with_origin(plan: Plan, columns: Sequence[ViewColumn]) -> sql.Composed:
    """A relation: the result's columns of the view, and what sources/origin.py reads.

    Both are read by the same time where the fact has it, so that an index may serve each.
    """
    fact, by_name = plan.fact, {one.name: one for one in columns}
    equal = []
    for column, name in zip(fact.key, plan.key, strict=True):
        ours, theirs = sql.Identifier("seen", name), sql.Identifier("fact", column)
        if _MODIFIERS.sub("", by_name[name].pg) != _MODIFIERS.sub("", fact.types[column].pg):
            theirs = sql.SQL("CAST({} AS {})").format(theirs, sql.SQL(by_name[name].pg))
        equal.append(sql.SQL("{} = {}").format(theirs, ours))
    if plan.fact_time is not None and fact.types[plan.fact_time].time_zone is None:
        times = sql.Identifier("fact", plan.fact_time), sql.Identifier("seen", plan.time)
        equal.append(sql.SQL("{} = {}").format(*times))
    return sql.SQL(
        "(SELECT {values}, {origin} FROM {view} AS seen "
        "LEFT JOIN {fact} AS fact ON {equal}) AS rows"
    ).format(
        values=sql.SQL(", ").join(sql.Identifier("seen", one.name) for one in columns),
        origin=sql.SQL(", ").join(origin_reads("fact", plan)),
        view=_name(plan),
        fact=sql.Identifier(fact.name.schema, fact.name.name),
        equal=sql.SQL(" AND ").join(equal),
    )


class ViewReader:
    """DataFrames over a pipeline's view that see one snapshot.

    The exporting transaction must stay open until the last partition has begun to read.
    """

    def __init__(
        self, spark: "SparkSession", target: RoleConnection, exported: ExportedSnapshot
    ) -> None:
        self._spark, self._role, self._connection = spark, target.role, exported.connection
        self._jdbc = SnapshotJdbc(spark, target, exported, _OPTIONS)

    def rows(self, plan: Plan, window: Window | None, slice_rows: int) -> "DataFrame":
        """The result's columns of the window's rows, in slices of its time; of all without one.

        Those of a window have what sources/origin.py reads as well.

        slice_rows: rows that a slice, which one task reads, should have at the most. Raises
        SourceValueError for a value that the result's type cannot hold, or when the view has rows
        that are in no window; otherwise as view_columns does.
        """
        columns = view_columns(self._connection, plan, self._role)
        inside, more, predicates, relation, kept = _ALL, [], ["true"], _name(plan), ()
        if window is not None and plan.time is not None:
            time = next(one for one in columns if one.name == plan.time)
            self._require_times(plan, time)
            inside, instant = _inside(time, window), _instant(time)
            counts = count_slots(self._connection, window, _name(plan), instant, inside)
            predicates = self._slices(window, counts, slice_rows)
            relation, kept = with_origin(plan, columns), origin_reads_names(plan)
            more = [
                sql.SQL("{} AS {}").format(instant, sql.Identifier(_SLICED_BY)),
                *map(sql.Identifier, kept),
            ]
        self._require_exact(plan, columns, inside)
        query = sent_query(relation, columns, inside, more)
        sent = self._jdbc.read(query, "source_view", predicates)
        return received_rows(sent, columns, kept)

    def most_rows_of_a_key(self, plan: Plan, window: Window) -> tuple[int, tuple]:
        """Of the window's rows, and that key. PostgreSQL counts, over no more than the key needs.

        plan: of a result with a time.
        """
        columns = view_columns(self._connection, plan, self._role)
        time = next(one for one in columns if one.name == plan.time)
        query = sql.SQL(
            "SELECT count(*) AS key_rows, {key} FROM {view} WHERE {inside} "
            "GROUP BY {key} HAVING count(*) > 1 ORDER BY key_rows DESC LIMIT 1"
        ).format(
            key=sql.SQL(", ").join(map(sql.Identifier, plan.key)),
            view=_name(plan),
            inside=_inside(time, window),
        )
        found = self._connection.execute(query).fetchone()
        return (found[0], found[1:]) if found else (1, ())

    def _slices(self, window: Window, counts: Sequence[SlotCount], slice_rows: int) -> list[str]:
        slices = slice_window(
            window,
            counts,
            rows_max=slice_rows,
            slices_min=self._spark.sparkContext.defaultParallelism,
        )
        return [between(_SLICED_BY, part) for part in slices]

    def _require_times(self, plan: Plan, time: ViewColumn) -> None:
        # Of the whole view: no window would ever ask for these rows.
        query = sql.SQL("SELECT count(*) FROM {view} WHERE {out_of_time}").format(
            view=_name(plan), out_of_time=out_of_time(time.name, time.type)
        )
        (rows,) = self._connection.execute(query).fetchone()
        if rows:
            raise SourceValueError(
                f"pipeline {plan.name}: {rows:,} rows of the view {view_of(plan)} have a "
                f"{time.name} that no window holds (null, infinity, BC or after the year 9999): "
                "let the view give each row a time"
            )

    def _require_exact(
        self, plan: Plan, columns: Sequence[ViewColumn], inside: sql.Composable
    ) -> None:
        checked = [(one, one.refused) for one in columns if one.refused is not None]
        if not checked:
            return
        counts = (sql.SQL("count(*) FILTER (WHERE {})").format(refused) for _, refused in checked)
        query = sql.SQL("SELECT {counts} FROM {view} WHERE {inside}").format(
            counts=sql.SQL(", ").join(counts), view=_name(plan), inside=inside
        )
        found = self._connection.execute(query).fetchone()
        for (column, _), count in zip(checked, found, strict=True):
            if count:
                raise SourceValueError(
                    f"view {view_of(plan)}, column {column.name}: {count:,} values of type "
                    f"{column.pg} cannot be kept exactly ({column.why_refused}): let the view "
                    f"give a {column.delta}, as query.sql does"
                )


def _name(plan: Plan) -> sql.Identifier:
    view = view_of(plan)
    return sql.Identifier(view.schema, view.name)


def _instant(time: ViewColumn) -> sql.Composable:
    """A day begins at midnight UTC, which every session of ours is in."""
    return sql.SQL("CAST({} AS timestamptz)").format(sql.Identifier(time.name))


def _inside(time: ViewColumn, window: Window) -> sql.Composable:
    """PostgreSQL takes the condition into the view, where an index may serve it."""
    return sql.SQL("({time} >= {start} AND {time} < {end})").format(
        time=sql.Identifier(time.name),
        start=sql.Literal(window.start),
        end=sql.Literal(window.end),
    )
