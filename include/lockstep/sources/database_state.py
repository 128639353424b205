"""Reads what a database has already of all that capture needs. Changes nothing.

What its tables are is in database_catalog.py, what is missing in preparation.py.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import psycopg

from lockstep.pipeline.catalog import TableName

_READS = Path(__file__).with_name("catalog_reads")


class Server(NamedTuple):
    """version: such as 170004. enums_without_labels: names as format_type writes them."""

    version: int
    wal_level: str
    enums_without_labels: list[str]


class RoleState(NamedTuple):
    """may_connect: to this database."""

    may_sign_in: bool
    may_replicate: bool
    may_connect: bool


class TableState(NamedTuple):
    """has_identity: its primary key is one in the log, too, as a deferrable key is not.

    schema_users: the roles that may use its schema. readers: those that may read it.
    """

    is_logged: bool
    has_identity: bool
    schema_users: list[str]
    readers: list[str]


@dataclass(frozen=True)
class Publication:
    """is_whole: no kind of change is left out, and changes of partitions are their table's.

    members: a number of each table's membership. One that leaves and comes again has another.
    """

    is_whole: bool
    members: Mapping[TableName, int]

    @property
    def tables(self) -> frozenset[TableName]:
        return frozenset(self.members)


@dataclass(frozen=True)
class DatabaseState:
    """roles: those that exist. tables: all of the schemas asked for. publication: None without."""

    database: str
    server: Server
    roles: dict[str, RoleState]
    tables: dict[TableName, TableState]
    publication: Publication | None


def read_database_state(
    connection: psycopg.Connection,
    schemas: Collection[str],
    roles: Collection[str],
    publication: str,
) -> DatabaseState:
    """What there is, in one snapshot.

    The connection is in autocommit, and its role needs no rights but to connect. Raises
    psycopg.Error.
    """
    values = {"schemas": list(schemas), "roles": list(roles)}
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        connection.execute("SET LOCAL search_path TO ''")
        server = connection.execute(_text("server")).fetchone()
        tables = connection.execute(_text("tables"), values).fetchall()
        found = connection.execute(_text("roles"), values).fetchall()
        published = read_publication(connection, publication)
    return DatabaseState(
        database=connection.info.dbname,
        server=Server(*server),
        roles={name: RoleState(*rest) for name, *rest in found},
        tables={TableName(schema, name): TableState(*rest) for schema, name, *rest in tables},
        publication=published,
    )


def read_publication(connection: psycopg.Connection, name: str) -> Publication | None:
    """A publication with its tables; any role may ask. Raises psycopg.Error."""
    row = connection.execute(_text("publication"), {"publication": name}).fetchone()
    if row is None:
        return None
    is_whole, tables = row
    return Publication(is_whole, {TableName(*table): int(member) for *table, member in tables})


def _text(name: str) -> str:
    return (_READS / f"{name}.sql").read_text(encoding="utf-8")
