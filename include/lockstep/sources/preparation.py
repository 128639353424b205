"""What a database needs before its changes can be captured: SQL for its administrator, warnings.

Nothing here asks a database or changes one.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from psycopg import sql

from lockstep.pipeline.catalog import Catalog, ReplicaIdentity, Table, TableName
from lockstep.pipeline.pg_types import RefusedError, parse_type
from lockstep.pipeline.source import Roles
from lockstep.pipeline.types import stopping_columns, unclear_arrays
from lockstep.sources.database_state import DatabaseState

VERSION_MIN = 140000
_OPTIONS = sql.SQL(
    "publish = 'insert, update, delete, truncate', publish_via_partition_root = true"
)


_WHO = (
    ("CREATE ROLE", "a role with CREATEROLE; for REPLICATION, with REPLICATION"),
    ("ALTER ROLE", "a role with CREATEROLE; for REPLICATION, with REPLICATION"),
    ("ALTER TABLE", "the table's owner"),
    ("GRANT CONNECT", "the database's owner"),
    ("GRANT USAGE", "the schema's owner"),
    ("GRANT", "the tables' owner"),
    ("CREATE PUBLICATION", "the tables' owner, with CREATE on the database"),
    ("ALTER PUBLICATION", "the publication's owner, who owns the tables"),
)


@dataclass(frozen=True)
class Wanted:
    """What is to be captured, by whom. tables: of the catalog, each with a primary key."""

    catalog: Catalog
    roles: Roles
    publication: str
    tables: tuple[TableName, ...]


def missing_statements(wanted: Wanted, state: DatabaseState) -> list[str]:
    """The SQL for what the database lacks, in the order to run it; comments are lines of it.

    As a superuser, or as the owner of the tables who may make roles and publications.
    """
    return [
        *_identities(wanted),
        *_roles(wanted, state),
        *_grants(wanted, state),
        *_publication(wanted, state),
    ]


def who_runs(statement: str) -> str:
    """Who may run one of the missing statements, if no superuser does (the manual, by command)."""
    for start, who in _WHO:
        if statement.startswith(start):
            return who
    return ""


def warnings(wanted: Wanted, state: DatabaseState) -> list[str]:
    """What keeps a connector from starting or loses values, a sentence each with what to do."""
    return [*_of_server(state), *_of_types(wanted.catalog, state), *_of_tables(wanted, state)]


def captures(table: Table, state: DatabaseState) -> bool:
    """Whether a table can be in a publication without harm: UPDATE and DELETE need a key there."""
    found = state.tables[table.name]
    return found.has_identity and found.is_logged


def publication_statement(publication: str, tables: Iterable[TableName]) -> str:
    """CREATE PUBLICATION for these tables."""
    statement = "CREATE PUBLICATION {} FOR TABLE {} WITH ({});"
    return _written(statement, sql.Identifier(publication), _listed(tables), _OPTIONS)


def add_tables_statement(publication: str, tables: Iterable[TableName]) -> str:
    """ALTER PUBLICATION to have these tables, too."""
    statement = "ALTER PUBLICATION {} ADD TABLE {};"
    return _written(statement, sql.Identifier(publication), _listed(tables))


def all_changes_statement(publication: str) -> str:
    """ALTER PUBLICATION to have every kind of change, those of partitions as their table's."""
    return _written("ALTER PUBLICATION {} SET ({});", sql.Identifier(publication), _OPTIONS)


def reading_statements(role: str, tables: Sequence[TableName]) -> list[str]:
    """GRANT, so that a role may read these tables."""
    reader, schemas = sql.Identifier(role), dict.fromkeys(table.schema for table in tables)
    return [
        *_schema_grants(schemas, reader),
        _written("GRANT SELECT ON {} TO {};", _listed(tables), reader),
    ]


def full_identity_statement(table: TableName) -> str:
    """ALTER TABLE, so that a change carries the whole old row."""
    return _written("ALTER TABLE {} REPLICA IDENTITY FULL;", _identifier(table))


def replication_statement(role: str) -> str:
    """ALTER ROLE, so that a role may follow the log."""
    return _written("ALTER ROLE {} REPLICATION;", sql.Identifier(role))


def _identities(wanted: Wanted) -> Iterator[str]:
    """Of an index other than the primary key's, or of nothing, a DELETE has not the key."""
    for name in wanted.tables:
        identity = wanted.catalog.table(name).replica_identity
        if unclear_arrays(name, wanted.catalog):
            if identity is not ReplicaIdentity.FULL:
                yield full_identity_statement(name)
        elif identity in (ReplicaIdentity.INDEX, ReplicaIdentity.NOTHING):
            yield _written("ALTER TABLE {} REPLICA IDENTITY DEFAULT;", _identifier(name))


def _roles(wanted: Wanted, state: DatabaseState) -> Iterator[str]:
    roles = wanted.roles
    for name in dict.fromkeys((roles.read, roles.capture)):
        role, replicates = sql.Identifier(name), name == roles.capture
        found = state.roles.get(name)
        if found is None:
            yield _written(f"CREATE ROLE {{}} LOGIN{' REPLICATION' if replicates else ''};", role)
            yield f"-- Choose its password, in psql: \\password {_written('{}', role)}"
            continue
        if not found.may_sign_in:
            yield _written("ALTER ROLE {} LOGIN;", role)
        if replicates and not found.may_replicate:
            yield replication_statement(name)


def _grants(wanted: Wanted, state: DatabaseState) -> Iterator[str]:
    roles = dict.fromkeys((wanted.roles.read, wanted.roles.capture))
    schemas = dict.fromkeys(table.schema for table in wanted.tables)
    users = {table.schema: found.schema_users for table, found in state.tables.items()}
    for name in roles:
        role, found = sql.Identifier(name), state.roles.get(name)
        if found is None or not found.may_connect:
            database = sql.Identifier(state.database)
            yield _written("GRANT CONNECT ON DATABASE {} TO {};", database, role)
        yield from _schema_grants([one for one in schemas if name not in users[one]], role)
        if unread := [one for one in wanted.tables if name not in state.tables[one].readers]:
            yield _written("GRANT SELECT ON {} TO {};", _listed(unread), role)


def _schema_grants(schemas: Iterable[str], role: sql.Identifier) -> Iterator[str]:
    for schema in schemas:
        yield _written("GRANT USAGE ON SCHEMA {} TO {};", sql.Identifier(schema), role)


def _publication(wanted: Wanted, state: DatabaseState) -> Iterator[str]:
    found = state.publication
    if found is None:
        if wanted.tables:
            yield publication_statement(wanted.publication, wanted.tables)
        return
    if not found.is_whole:
        yield all_changes_statement(wanted.publication)
    if lacking := [table for table in wanted.tables if table not in found.tables]:
        yield add_tables_statement(wanted.publication, lacking)


def _of_server(state: DatabaseState) -> Iterator[str]:
    server = state.server
    if server.version < VERSION_MIN:
        yield f"the server is PostgreSQL {server.version // 10000}: upgrade it to 14 or later"
    if server.wal_level != "logical":
        yield (
            f"wal_level is {server.wal_level}, and no connector starts: set it to logical and "
            "restart PostgreSQL"
        )


def _of_types(catalog: Catalog, state: DatabaseState) -> Iterator[str]:
    for name in state.server.enums_without_labels:
        yield (
            f"the enum {name} has no labels, and no connector starts: add one with ALTER TYPE … "
            "ADD VALUE, or DROP TYPE"
        )
    for name in catalog.domains:
        if _is_over_enum(name, catalog):
            yield (
                f"the domain {name} is over an enum, and no connector starts: DROP DOMAIN, and use "
                "the enum itself"
            )


def _is_over_enum(domain: str, catalog: Catalog) -> bool:
    try:
        found = parse_type(domain, catalog)
    except RefusedError:
        return False
    return found.labels is not None and not found.is_array


def _of_tables(wanted: Wanted, state: DatabaseState) -> Iterator[str]:
    for name in wanted.tables:
        columns = stopping_columns(name, wanted.catalog)
        if columns and wanted.catalog.table(name).replica_identity is not ReplicaIdentity.FULL:
            yield (
                f"table {name}: the connector stops at a change that leaves a large value of "
                f"{columns[0].name} as it was; give it REPLICA IDENTITY FULL first"
            )
    for table in wanted.catalog.tables:
        if table.name not in wanted.tables:
            yield f"table {table.name} is not captured: {_why_not(table, state)}"


def _why_not(table: Table, state: DatabaseState) -> str:
    """What is in the way of capturing a table, and what to do."""
    found = state.tables[table.name]
    if not found.has_identity:
        kind = "only a deferrable" if table.key else "no"
        is_published = state.publication and table.name in state.publication.tables
        fault = "fail as it is published" if is_published else "would fail if it were published"
        return (
            f"it has {kind} primary key, so that the application's UPDATE and DELETE {fault}; add "
            "a primary key that is not deferrable"
        )
    return "name it by --tables" if found.is_logged else "it is unlogged; ALTER TABLE … SET LOGGED"


def _identifier(table: TableName) -> sql.Identifier:
    return sql.Identifier(table.schema, table.name)


def _listed(tables: Iterable[TableName]) -> sql.Composed:
    return sql.SQL(", ").join(map(_identifier, tables))


def _written(statement: str, *parts: sql.Composable) -> str:
    return sql.SQL(statement).format(*parts).as_string()
