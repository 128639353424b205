"""What a view of a source's database is made of: its query, and the foreign keys of the tables."""

from dataclasses import dataclass
from pathlib import Path

import psycopg

from lockstep.pipeline.catalog import ForeignKey, TableName
from lockstep.pipeline.errors import CatalogError
from lockstep.sources.database_catalog import read_foreign_keys
from lockstep.sources.preparation import reading_statements

_DEFINITION = Path(__file__).with_name("catalog_reads") / "view_definition.sql"


@dataclass(frozen=True)
class ViewDefinition:
    """sql: of PostgreSQL. keeps_commit_times: whether mode lookup can be used.

    grants: SQL that the role lacks to read the view.
    """

    sql: str
    foreign_keys: tuple[ForeignKey, ...]
    keeps_commit_times: bool
    grants: tuple[str, ...] = ()


def read_view(connection: psycopg.Connection, view: TableName) -> ViewDefinition:
    """Look at a view, for which the role needs no rights but to connect.

    Raises CatalogError when there is none of this name, psycopg.Error otherwise.
    """
    with connection.transaction():
        connection.execute("SET LOCAL search_path TO ''")
        values = {"schema": view.schema, "name": view.name}
        found = connection.execute(_DEFINITION.read_text(encoding="utf-8"), values).fetchone()
        keys = read_foreign_keys(connection)
        (times,) = connection.execute("SHOW track_commit_timestamp").fetchone()
        (role,) = connection.execute("SELECT current_user").fetchone()
    if found is None:
        raise CatalogError(
            f"the database has no view {view}: create it, with the columns that the result is to "
            "have"
        )
    definition, may_find, may_read = found
    *to_find, to_read = reading_statements(role, [view])
    grants = [*([] if may_find else to_find), *([] if may_read else [to_read])]
    return ViewDefinition(definition, keys, times == "on", tuple(grants))
