"""The types of Delta's columns: their text, as SQL writes it, and what they are in Arrow. Pure."""

from collections.abc import Callable, Mapping
from functools import cache

import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import SqlglotError

from lockstep.pipeline.errors import PipelineError

_Type = exp.DataType.Type
_SCALARS = {
    _Type.BOOLEAN: pa.bool_(),
    _Type.TINYINT: pa.int8(),
    _Type.SMALLINT: pa.int16(),
    _Type.INT: pa.int32(),
    _Type.BIGINT: pa.int64(),
    _Type.FLOAT: pa.float32(),
    _Type.DOUBLE: pa.float64(),
    _Type.TEXT: pa.string(),
    _Type.BINARY: pa.binary(),
    _Type.DATE: pa.date32(),
    _Type.TIMESTAMPTZ: pa.timestamp("us", "UTC"),
}


def arrow_schema(columns: Mapping[str, str]) -> pa.Schema:
    """The Arrow schema of a table, given its columns and their Delta types; all may be null."""
    return pa.schema([(name, arrow_type(kind)) for name, kind in columns.items()])


@cache
def arrow_type(text: str) -> pa.DataType:
    """`array<struct<item:string,price:decimal(10,2)>>`, or any other type of Delta, in Arrow.

    Times are microseconds in UTC. Raises PipelineError for what Delta does not hold.
    """
    try:
        return _arrow(exp.DataType.build(text, dialect="spark"))
    except (KeyError, SqlglotError, ValueError):
        raise PipelineError(f"{text} is no type that a Delta table of ours can hold") from None


def is_nested(text: str) -> bool:
    """Whether it is a type of arrays, structs or maps."""
    return text.partition("<")[0] in ("array", "struct", "map")


def _arrow(found: exp.DataType) -> pa.DataType:
    make = _NESTED.get(found.this)
    return make(found.expressions) if make else _SCALARS[found.this]


def _decimal(parameters: list[exp.DataTypeParam]) -> pa.DataType:
    return pa.decimal128(*(int(one.this.this) for one in parameters))


def _list(elements: list[exp.DataType]) -> pa.DataType:
    [element] = elements
    return pa.list_(_arrow(element))


def _map(parts: list[exp.DataType]) -> pa.DataType:
    key, value = map(_arrow, parts)
    return pa.map_(key, value)


def _struct(fields: list[exp.ColumnDef]) -> pa.DataType:
    return pa.struct([(one.name, _arrow(one.args["kind"])) for one in fields])


_NESTED: dict[_Type, Callable[[list], pa.DataType]] = {
    _Type.DECIMAL: _decimal,
    _Type.ARRAY: _list,
    _Type.MAP: _map,
    _Type.STRUCT: _struct,
}
