"""What a view of a source's database is made of: its query, and the foreign keys of the tables."""

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import psycopg

from lockstep.pipeline.catalog import TableName
from lockstep.pipeline.errors import CatalogError
from lockstep.pipeline.from_view import ForeignKey

_READS = Path(__file__).with_name("catalog_reads")


@dataclass(frozen=True)
class ViewDefinition:
    """sql: of PostgreSQL. keeps_commit_times: whether mode lookup can be used."""

    sql: str
    foreign_keys: tuple[ForeignKey, ...]
    keeps_commit_times: bool


def read_view(connection: psycopg.Connection, view: TableName) -> ViewDefinition:
    """Look at a view, for which the role needs no rights but to connect.

    Raises CatalogError when there is none of this name, psycopg.Error otherwise.
    """
    with connection.transaction():
        connection.execute("SET LOCAL search_path TO ''")
        values = {"schema": view.schema, "name": view.name}
        found = connection.execute(_text("view_definition"), values).fetchone()
        keys = connection.execute(_text("foreign_keys")).fetchall()
        (times,) = connection.execute("SHOW track_commit_timestamp").fetchone()
    if found is None:
        raise CatalogError(
            f"the database has no view {view}: create it, with the columns that the result is to "
            "have"
        )
    return ViewDefinition(found[0], _foreign_keys(keys), times == "on")


def _text(name: str) -> str:
    return (_READS / f"{name}.sql").read_text(encoding="utf-8")


def _foreign_keys(rows: list[tuple]) -> tuple[ForeignKey, ...]:
    """rows: of foreign_keys.sql."""
    tables: dict[int, tuple[TableName, TableName]] = {}
    pairs: dict[int, dict[str, str]] = defaultdict(dict)
    for key, schema, table, column, to_schema, to_table, to_column in rows:
        tables[key] = TableName(schema, table), TableName(to_schema, to_table)
        pairs[key][column] = to_column
    return tuple(ForeignKey(*tables[key], pairs[key]) for key in tables)
