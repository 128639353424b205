"""Is the database ready for change data capture? Asked before the connector is registered.

Every check gives its own sentence with what to do; only `drop_slot` changes anything.
"""

import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import psycopg

from lockstep.capture.connectors import Connector
from lockstep.errors import ServiceError
from lockstep.host.data_folders import postgres_data
from lockstep.pipeline.catalog import TableName
from lockstep.settings import Settings
from lockstep.sources.preparation import (
    add_tables_statement,
    all_changes_statement,
    full_identity_statement,
    reading_statements,
    replication_statement,
)
from lockstep.waiting import wait_until

QUERY = """
SELECT
    current_setting('wal_level') AS wal_level,
    current_setting('max_replication_slots')::int AS slots_max,
    (SELECT count(*) FROM pg_replication_slots) AS slots_used,
    (SELECT rolreplication OR rolsuper FROM pg_roles WHERE rolname = current_user) AS can_replicate,
    EXISTS (SELECT FROM pg_publication WHERE pubname = %(publication)s) AS has_publication,
    EXISTS (
        SELECT FROM pg_publication
        WHERE pubname = %(publication)s
            AND NOT (pubinsert AND pubupdate AND pubdelete AND pubtruncate)
    ) AS is_partial,
    ARRAY(
        SELECT ARRAY[schemaname::text, tablename::text] FROM pg_publication_tables
        WHERE pubname = %(publication)s
    ) AS published,
    ARRAY(
        SELECT ARRAY[schemaname::text, tablename::text]
        FROM pg_publication_tables
        INNER JOIN pg_namespace ON nspname = schemaname
        INNER JOIN pg_class ON relnamespace = pg_namespace.oid AND relname = tablename
        WHERE pubname = %(publication)s
            AND NOT (
                has_schema_privilege(pg_namespace.oid, 'USAGE')
                AND has_table_privilege(pg_class.oid, 'SELECT')
            )
    ) AS unreadable,
    ARRAY(
        SELECT ARRAY[nspname::text, relname::text]
        FROM pg_class
        INNER JOIN pg_namespace ON pg_namespace.oid = relnamespace
        WHERE relreplident = 'f'
    ) AS with_full_identity,
    slot.plugin AS slot_plugin,
    slot.wal_status AS slot_wal_status,
    coalesce(slot.active, false) AS slot_active
FROM (SELECT) AS one
LEFT JOIN pg_replication_slots AS slot ON slot.slot_name = %(slot)s
"""
DROP_SLOT = """
SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %(slot)s
"""
RELEASE_SECONDS_MAX = 60.0
POLL_SECONDS = 0.2


class DatabaseFacts(NamedTuple):
    """One row of QUERY; the slot's columns are None when there is no slot.

    is_partial: some kinds of changes are not published. unreadable: those published tables that the
    role cannot read, with_full_identity: all such tables of the database; schema and name of each.
    """

    wal_level: str
    slots_max: int
    slots_used: int
    can_replicate: bool
    has_publication: bool
    is_partial: bool
    published: list[list[str]]
    unreadable: list[list[str]]
    with_full_identity: list[list[str]]
    slot_plugin: str | None
    slot_wal_status: str | None
    slot_active: bool


def check(settings: Settings, connector: Connector, *, first: bool) -> None:
    """Raise ServiceError naming everything that is in the way of the connector.

    `first`: the connector is not registered yet, so no process may be reading its slot.
    """
    facts = _ask(connector)
    found = [*problems(connector, facts, first=first), *_disk_problems(settings, connector)]
    if found:
        raise ServiceError("change data capture cannot start:\n- " + "\n- ".join(found))


def slot_is_read(connector: Connector) -> bool:
    """Whether a process reads the slot now; none does during a snapshot. Raises ServiceError."""
    return _ask(connector).slot_active


def drop_slot(connector: Connector) -> None:
    """Drop the slot, once its reader has let go; without one there is nothing to do.

    Raises ServiceError when a process goes on reading it.
    """
    if not wait_until(lambda: _is_dropped(connector), RELEASE_SECONDS_MAX, POLL_SECONDS):
        raise ServiceError(
            f"a process reads the slot {connector.slot}: stop that reader "
            "(view pg_stat_replication)"
        )


def _is_dropped(connector: Connector) -> bool:
    try:
        with _connected(connector) as connection:
            connection.execute(DROP_SLOT, {"slot": connector.slot})
    except psycopg.errors.ObjectInUse:
        return False
    return True


def _ask(connector: Connector) -> DatabaseFacts:
    asked = {"publication": connector.publication, "slot": connector.slot}
    with _connected(connector) as connection:
        return DatabaseFacts(*connection.execute(QUERY, asked).fetchone())


@contextmanager
def _connected(connector: Connector) -> Iterator[psycopg.Connection]:
    target = connector.database()
    try:
        with psycopg.connect(**target.parameters) as connection:
            yield connection
    except psycopg.errors.ObjectInUse:
        raise
    except psycopg.OperationalError as error:
        raise ServiceError(f"{target.role} cannot reach the database: {error}".strip()) from error


def problems(connector: Connector, facts: DatabaseFacts, *, first: bool) -> Iterator[str]:
    """What is wrong with the database, a sentence each."""
    role = connector.database().role
    if facts.wal_level != "logical":
        yield f"wal_level is {facts.wal_level}: set it to logical and restart PostgreSQL"
    if not facts.can_replicate:
        yield f"the role {role} may not replicate: {replication_statement(role)}"
    yield from _publication_problems(connector, facts)
    if unreadable := _names(facts.unreadable) & set(connector.tables):
        yield (
            f"the role {role} cannot read {_listed(unreadable)}: "
            f"{' '.join(reading_statements(role, sorted(unreadable)))}"
        )
    if partial := connector.full_identity - _names(facts.with_full_identity):
        statements = " ".join(map(full_identity_statement, sorted(partial)))
        yield f"changes of {_listed(partial)} do not carry the whole old row: {statements}"
    yield from _slot_problems(connector, facts, first)


def _publication_problems(connector: Connector, facts: DatabaseFacts) -> Iterator[str]:
    name = connector.publication
    if not facts.has_publication:
        yield f"there is no publication {name}: {connector.remedies.publish}"
        return
    if lacking := set(connector.tables) - _names(facts.published):
        statement = add_tables_statement(name, sorted(lacking))
        yield f"the publication {name} lacks {_listed(lacking)}: {statement}"
    if facts.is_partial:
        yield f"the publication {name} leaves out changes: {all_changes_statement(name)}"


def _names(tables: list[list[str]]) -> set[TableName]:
    return {TableName(*table) for table in tables}


def _listed(tables: Iterable[TableName]) -> str:
    return ", ".join(map(str, sorted(tables)))


def _slot_problems(connector: Connector, facts: DatabaseFacts, first: bool) -> Iterator[str]:
    if facts.slot_plugin is None:
        if facts.slots_used >= facts.slots_max:
            yield (
                f"all {facts.slots_max} replication slots are in use: drop one that is not read "
                "(view pg_replication_slots) or raise max_replication_slots"
            )
        return
    if facts.slot_plugin != "pgoutput":
        yield (
            f"the slot {connector.slot} decodes with {facts.slot_plugin}, not pgoutput: "
            "not Lockstep's; drop or rename it"
        )
    if facts.slot_wal_status == "lost":
        yield (
            f"the slot {connector.slot} has lost log that was not read yet (more than "
            "LOCKSTEP_WAL_KEEP_BYTES behind): changes are missing for good; begin change "
            f"capture again with {connector.remedies.begin_again}"
        )
    if first and facts.slot_active:
        yield (
            f"another process is reading the slot {connector.slot}: stop that reader "
            "(view pg_stat_replication)"
        )


def _disk_problems(settings: Settings, connector: Connector) -> Iterator[str]:
    """Log kept for a reader that is down must not fill the disk of the database."""
    folder = postgres_data(settings)
    parameters = connector.database().parameters
    address = (parameters["host"], parameters["port"])
    if not folder.exists() or address != (settings.postgres_host, settings.postgres_port):
        return  # not the embedded server
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes < settings.wal_keep_bytes:
        yield (
            f"up to {settings.wal_keep_bytes / 1024**3:.1f} GB of log may be kept for the slot, "
            f"but {folder} has {free_bytes / 1024**3:.1f} GB free: make room or lower "
            "LOCKSTEP_WAL_KEEP_BYTES"
        )
