"""The one type system: the type of a table's column, and what sets of columns are in other systems.

The types themselves are in type_table.py, the decoding of rows in decoders.py. Nothing here reads a
database or starts Spark.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lockstep.pipeline.catalog import Catalog, Column, ReplicaIdentity, TableName
from lockstep.pipeline.errors import TypeRefusedError
from lockstep.pipeline.names import quoted
from lockstep.pipeline.pg_types import PgType, RefusedError, parse_type
from lockstep.pipeline.type_table import ValueType, array_type, scalar_type

if TYPE_CHECKING:
    import pyarrow as pa


def value_type(
    column: Column, table: TableName, catalog: Catalog, time_zone: str | None = None
) -> ValueType:
    """The type of a table's column.

    time_zone: IANA name of the zone that a `timestamp without time zone` is local time of; its
        values are converted to instants. Other types do without.
    Raises TypeRefusedError with table, column, type and what to do. Raises CatalogError when the
    catalog has no such table.
    """
    try:
        pg = parse_type(column.type, catalog)
        found = scalar_type(pg, time_zone)
        if pg.is_array:
            found = array_type(pg, found)
            identity = catalog.table(table).replica_identity
            _require_clear_nulls(pg, found, column, identity)
    except RefusedError as error:
        raise TypeRefusedError(str(table), column.name, column.type, str(error)) from None
    return replace(found, decoded=found.decoded | None) if column.is_nullable else found


def unclear_arrays(table: TableName, catalog: Catalog) -> tuple[Column, ...]:
    """The columns of a table that can be read only with REPLICA IDENTITY FULL, set or not.

    Raises CatalogError when the catalog has no such table.
    """
    found = catalog.table(table)
    default, full = (
        replace(catalog, tables=(replace(found, replica_identity=identity),))
        for identity in (ReplicaIdentity.DEFAULT, ReplicaIdentity.FULL)
    )
    return tuple(
        column
        for column in found.columns
        if _is_readable(column, table, full) and not _is_readable(column, table, default)
    )


def stopping_columns(table: TableName, catalog: Catalog) -> tuple[Column, ...]:
    """Those of unclear_arrays at which the connector stops without REPLICA IDENTITY FULL."""
    return tuple(column for column in unclear_arrays(table, catalog) if not column.is_nullable)


def ddl(types: Mapping[str, ValueType]) -> str:
    """Columns as Spark's DDL, names quoted: "`id` bigint, `name` string"."""
    return ", ".join(f"{quoted(name)} {one.delta}" for name, one in types.items())


def arrow_schema(types: Mapping[str, ValueType]) -> "pa.Schema":
    """The Arrow schema of these columns, in their order; all may be null, as a delete's are."""
    from lockstep.pipeline import delta_types  # with pyarrow, which DAGs need not

    return delta_types.arrow_schema({name: one.delta for name, one in types.items()})


def key_text(key: Sequence[Any], types: Sequence[ValueType]) -> str:
    """Values of a key's columns as one text: a JSON array, null for a null.

    Guarantee: two keys of these types have the same text if and only if PostgreSQL holds each of
    their values for equal (nulls for equal, too). Raises ValueError for a type that is no key's.
    """
    tokens = (_key_token(value, one) for value, one in zip(key, types, strict=True))
    return f"[{','.join(tokens)}]"


def _key_token(value: Any, type_: ValueType) -> str:
    if type_.key is None:
        raise ValueError(f"type {type_.pg} is no type of a key")
    return "null" if value is None else type_.key(value)


def _is_readable(column: Column, table: TableName, catalog: Catalog) -> bool:
    try:
        value_type(column, table, catalog, "UTC")
    except TypeRefusedError:
        return False
    return True


def _require_clear_nulls(
    pg: PgType, array: ValueType, column: Column, identity: ReplicaIdentity
) -> None:
    """Raise RefusedError where Debezium sends null for an array that is none."""
    if array.placeholder is None and identity is not ReplicaIdentity.FULL:
        raise RefusedError(
            "Debezium sends null for such an array when it is large and an update leaves it as it "
            "was; ALTER TABLE … REPLICA IDENTITY FULL, or leave the column out of the query"
        )
    if column.is_nullable and (pg.name == "numeric" or pg.labels is not None):
        what = "a null" if pg.labels else "NaN"
        raise RefusedError(
            f"Debezium sends null for such an array with {what} in it; ALTER the column to NOT "
            "NULL, or to an array of text, or leave the column out of the query"
        )
