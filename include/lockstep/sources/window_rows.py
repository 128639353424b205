"""A window's rows as PostgreSQL has them, read without Spark under one exported snapshot.

For what asks for a few rows, and must not wait for a JVM. The hourly run reads by JDBC.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa
from psycopg import sql
from psycopg.rows import dict_row

from lockstep.cdc.cuts import ExportedSnapshot
from lockstep.model.window import Window
from lockstep.pipeline.delta_types import is_nested
from lockstep.pipeline.plan import Plan
from lockstep.pipeline.result import Result
from lockstep.pipeline.row_keys import Key
from lockstep.sources.origin import ROW_CHILDREN, ROW_XID, origin_reads, origin_reads_names
from lockstep.sources.snapshot_jdbc import FETCH_ROWS
from lockstep.sources.source_view import ViewColumn, view_columns, with_origin


class MadeOf(NamedTuple):
    """The transaction that wrote the fact's row, and the digest of its children's rows, if any."""

    tx_id: int
    children: str | None = None


@dataclass(frozen=True)
class DatabaseRow:
    """A row of the view. values: of the result's columns that are not in the key.

    origin: the other columns of the read, for sources/origin.py.
    """

    key: Key
    values: Mapping[str, Any]
    origin: Mapping[str, Any]


def row_versions(exported: ExportedSnapshot, plan: Plan, window: Window) -> dict[Key, MadeOf]:
    """Of each row of the window what it is made of, transactions in 32 bits.

    Raises as view_columns does, where the fact alone does not say which rows are in the window.
    """
    with exported.connection.cursor(row_factory=dict_row) as cursor:
        cursor.execute(_versions(exported, plan, window))
        return {
            _key(plan.result, row): MadeOf(row[ROW_XID], row.get(ROW_CHILDREN)) for row in cursor
        }


def rows_in(
    exported: ExportedSnapshot,
    plan: Plan,
    window: Window,
    keys: Collection[Key] | None = None,
) -> Iterator[DatabaseRow]:
    """The window's rows, read FETCH_ROWS at a time; keys: only these of them.

    Raises PipelineError for a pipeline without a view, otherwise as view_columns does.
    """
    query = sql.SQL("SELECT * FROM ({rows}) AS of_window WHERE {chosen}").format(
        rows=_view_rows(exported, plan, window), chosen=_chosen(plan.result.key, keys)
    )
    with closing(exported.connection.cursor("rows_of_window", row_factory=dict_row)) as cursor:
        cursor.itersize = FETCH_ROWS
        cursor.execute(query)
        for row in cursor:
            yield row_of(plan.result, row)


def _versions(exported: ExportedSnapshot, plan: Plan, window: Window) -> sql.Composable:
    fact = plan.fact
    if plan.fact_time is None or any(
        fact.types[name].time_zone for name in (*fact.key, plan.fact_time)
    ):
        return _view_rows(exported, plan, window)
    key = [
        sql.SQL("fact.{} AS {}").format(sql.Identifier(column), sql.Identifier(name))
        for column, name in zip(fact.key, plan.key, strict=True)
    ]
    return sql.SQL("SELECT {key}, {origin} FROM {fact} AS fact WHERE {inside}").format(
        key=_listed(key),
        origin=_listed(origin_reads("fact", plan)),
        fact=sql.Identifier(fact.name.schema, fact.name.name),
        inside=_inside(sql.Identifier("fact", plan.fact_time), window),
    )


def _view_rows(exported: ExportedSnapshot, plan: Plan, window: Window) -> sql.Composable:
    """The window's rows of the view, each with what sources/origin.py reads of the fact's row."""
    connection = exported.connection
    columns = view_columns(connection, plan, connection.info.user)
    values = (
        sql.SQL("{} AS {}").format(_as_read(one), sql.Identifier(one.name)) for one in columns
    )
    return sql.SQL("SELECT {values}, {origin} FROM {rows} WHERE {inside}").format(
        values=_listed(values),
        origin=_listed(map(sql.Identifier, origin_reads_names(plan))),
        rows=with_origin(plan, columns),
        inside=_inside(sql.Identifier(plan.result.time), window),
    )


def _as_read(column: ViewColumn) -> sql.Composable:
    """Text and JSON as text, whatever the database has; all else as psycopg reads it."""
    is_text = column.delta == "string" or is_nested(column.delta)
    return column.sent if is_text else sql.Identifier(column.name)


def _inside(time: sql.Composable, window: Window) -> sql.Composed:
    return sql.SQL("{time} >= {start} AND {time} < {end}").format(
        time=time, start=sql.Literal(window.start), end=sql.Literal(window.end)
    )


def row_of(result: Result, read: Mapping[str, Any]) -> DatabaseRow:
    """A row of the view as psycopg gives it, its values as Arrow gives those of Delta's tables."""
    values = {name: _value(read[name], result.schema.field(name).type) for name in result.values}
    others = {name: value for name, value in read.items() if name not in result.columns}
    return DatabaseRow(_key(result, read), values, others)


def _key(result: Result, read: Mapping[str, Any]) -> Key:
    return tuple(_value(read[name], result.schema.field(name).type) for name in result.key)


def _chosen(names: Sequence[str], keys: Collection[Key] | None) -> sql.Composable:
    if keys is None:
        return sql.SQL("true")
    if not keys:
        return sql.SQL("false")
    rows = (sql.SQL("({})").format(_listed(map(sql.Literal, key))) for key in keys)
    return sql.SQL("({names}) IN ({rows})").format(
        names=_listed(map(sql.Identifier, names)), rows=_listed(rows)
    )


def _listed(parts: Iterable[sql.Composable]) -> sql.Composable:
    return sql.SQL(", ").join(parts)


def _value(value: Any, kind: pa.DataType) -> Any:
    """Arrays, structs and maps come as JSON text, and what Delta has as text comes as it likes."""
    if value is None:
        return None
    if pa.types.is_nested(kind):
        text = value if isinstance(value, str) else json.dumps(value)
        return _of_json(json.loads(text, parse_float=Decimal), kind)
    return str(value) if pa.types.is_string(kind) else value


def _of_json(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_list(kind):
        return [_of_json(item, kind.value_type) for item in value]
    if pa.types.is_struct(kind):
        return {field.name: _of_json(value.get(field.name), field.type) for field in kind}
    if pa.types.is_map(kind):
        return [(name, _of_json(item, kind.item_type)) for name, item in value.items()]
    convert = next((made for is_of, made in _FROM_JSON if is_of(kind)), None)
    return value if convert is None else convert(value)


_FROM_JSON = (
    (pa.types.is_decimal, Decimal),
    (pa.types.is_floating, float),
    (pa.types.is_timestamp, datetime.fromisoformat),
    (pa.types.is_date, date.fromisoformat),
)
"""Of the types whose values JSON has as others."""
