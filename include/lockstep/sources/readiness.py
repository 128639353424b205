"""Whether a source's database is still as its catalog says, and its role may read what is planned.

Nothing here reads a row of a table.
"""

from collections.abc import Collection
from pathlib import Path

import psycopg

from lockstep.pipeline.catalog import Catalog, Column, Table, TableName
from lockstep.pipeline.errors import CatalogError
from lockstep.pipeline.pg_types import parse_type
from lockstep.pipeline.plan import PlannedTable
from lockstep.pipeline.project import Source
from lockstep.sources.database_catalog import read_database_catalog
from lockstep.sources.errors import PostgresUnavailableError

_RIGHTS = Path(__file__).with_name("catalog_reads") / "rights.sql"


def require_readable(
    connection: psycopg.Connection, source: Source, tables: Collection[PlannedTable]
) -> None:
    """Raise the error that reading these tables with this connection would meet.

    CatalogError for a table or a planned column that is not as catalog.lock has it, and
    PostgresUnavailableError for one that the connection's role may not read, or not whole. The
    connection is in autocommit.
    """
    schemas = {table.name.schema for table in tables}
    found = read_database_catalog(connection, source.name, schemas)
    for table in tables:
        _require_same(source, found, table)
    for table in tables:
        require_rights(connection, table.name, table.columns, source.manifest.roles.read)


def _require_same(source: Source, found: Catalog, planned: PlannedTable) -> None:
    again = f"write the catalog again with `lockstep source add {source.name}`"
    table = next((one for one in found.tables if one.name == planned.name), None)
    if table is None:
        raise CatalogError(
            f"the database of source {source.name} has no table {planned.name}, which catalog.lock "
            f"has: create it, or {again}"
        )
    known = source.catalog.table(planned.name)
    for name in planned.columns:
        was = _shape(known, name, source.catalog)
        now = _shape(table, name, found)
        if was != now:
            raise CatalogError(
                f"table {planned.name}, column {name}: the database has {now}, and catalog.lock "
                f"{was}: {again}"
            )
    if known.key != table.key:
        raise CatalogError(
            f"table {planned.name}: its primary key is ({', '.join(table.key)}) in the database, "
            f"and ({', '.join(known.key)}) in catalog.lock: {again}"
        )


def _shape(table: Table, name: str, catalog: Catalog) -> str:
    """All that a column's values depend on, with domains and enums resolved; for a message."""
    column = next((one for one in table.columns if one.name == name), None)
    if column is None:
        return "no such column"
    return _type(column, catalog) + ("" if column.is_nullable else " NOT NULL")


def _type(column: Column, catalog: Catalog) -> str:
    type_ = parse_type(column.type, catalog)
    labels = "" if type_.labels is None else f" ({', '.join(type_.labels)})"
    name = type_.text if type_.text == column.type else f"{column.type} as {type_.text}"
    return f"{name}{labels}"


def require_rights(
    connection: psycopg.Connection, table: TableName, columns: Collection[str], role: str
) -> None:
    """Raise PostgresUnavailableError unless this role, the connection's, may read these columns.

    CatalogError for a table from which others inherit (INHERITS, not PARTITION OF): its primary key
    does not cover their rows, and their changes are not in the log under its name.
    """
    values = {"schema": table.schema, "table": table.name, "columns": [*columns]}
    rights = connection.execute(_RIGHTS.read_text(encoding="utf-8"), values).fetchall()
    refused = [name for name, may_read, _, _ in rights if not may_read]
    if refused:
        raise PostgresUnavailableError(
            f"the role {role} may not read {', '.join(refused)} of table {table}: GRANT USAGE "
            f"ON SCHEMA {table.schema} and SELECT ON {table} TO {role}"
        )
    if any(has_heirs for *_, has_heirs in rights):
        raise CatalogError(
            f"other tables inherit from table {table} (INHERITS), whose rows it shows without its "
            "primary key and its changes: let it be partitioned, or leave it out of the query"
        )
    if any(has_hidden_rows for _, _, has_hidden_rows, _ in rights):
        raise PostgresUnavailableError(
            f"row-level security of table {table} may hide rows from the role {role}, which "
            f"the streams see: ALTER ROLE {role} BYPASSRLS, or leave the table out of the query"
        )
