"""Is the database ready for change data capture? Asked before the connector is registered.

Every check gives its own sentence with what to do; only `drop_slot` changes anything.
"""

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import psycopg

from lockstep.contracts import CAPTURED_TABLES, PUBLICATION, REPLICATION_SLOT, Role
from lockstep.errors import ServiceError
from lockstep.settings import Settings
from lockstep.stack import postgres_files

QUERY = """
SELECT
    current_setting('wal_level') AS wal_level,
    current_setting('max_replication_slots')::int AS slots_max,
    (SELECT count(*) FROM pg_replication_slots) AS slots_used,
    (SELECT rolreplication FROM pg_roles WHERE rolname = current_user) AS can_replicate,
    EXISTS (SELECT FROM pg_publication WHERE pubname = %(publication)s) AS has_publication,
    ARRAY(
        SELECT tablename::text FROM pg_publication_tables
        WHERE pubname = %(publication)s AND schemaname = 'public'
    ) AS published,
    ARRAY(
        SELECT relname::text FROM pg_class
        WHERE relnamespace = 'public'::regnamespace
            AND relname = ANY(%(tables)s) AND relreplident = 'f'
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
    """One row of QUERY; the slot's columns are None when there is no slot."""

    wal_level: str
    slots_max: int
    slots_used: int
    can_replicate: bool
    has_publication: bool
    published: list[str]
    with_full_identity: list[str]
    slot_plugin: str | None
    slot_wal_status: str | None
    slot_active: bool


def check(settings: Settings, *, first: bool) -> None:
    """Raise ServiceError naming everything that is in the way of the connector.

    `first`: the connector is not registered yet, so nobody may be reading its slot.
    """
    found = [*problems(_ask(settings), first=first), *_disk_problems(settings)]
    if found:
        raise ServiceError("change data capture cannot start:\n- " + "\n- ".join(found))


def slot_is_read(settings: Settings) -> bool:
    """Whether somebody reads the slot now; nobody does during a snapshot. Raises ServiceError."""
    return _ask(settings).slot_active


def drop_slot(settings: Settings) -> None:
    """Drop the slot, once its reader has let go; without one there is nothing to do.

    Raises ServiceError when somebody goes on reading it.
    """
    deadline = time.monotonic() + RELEASE_SECONDS_MAX
    while True:
        try:
            with _connected(settings) as connection:
                connection.execute(DROP_SLOT, {"slot": REPLICATION_SLOT})
            return
        except psycopg.errors.ObjectInUse as error:
            if time.monotonic() > deadline:
                raise ServiceError(
                    f"somebody reads the slot {REPLICATION_SLOT}: stop that reader "
                    "(view pg_stat_replication)"
                ) from error
            time.sleep(POLL_SECONDS)


def _ask(settings: Settings) -> DatabaseFacts:
    asked = {
        "publication": PUBLICATION,
        "tables": list(CAPTURED_TABLES),
        "slot": REPLICATION_SLOT,
    }
    with _connected(settings) as connection:
        return DatabaseFacts(*connection.execute(QUERY, asked).fetchone())


@contextmanager
def _connected(settings: Settings) -> Iterator[psycopg.Connection]:
    try:
        with psycopg.connect(**settings.connection(Role.CDC)) as connection:
            yield connection
    except psycopg.errors.ObjectInUse:
        raise
    except psycopg.OperationalError as error:
        raise ServiceError(f"{Role.CDC} cannot reach the database: {error}".strip()) from error


def problems(facts: DatabaseFacts, *, first: bool) -> Iterator[str]:
    """What is wrong with the database, a sentence each."""
    if facts.wal_level != "logical":
        yield f"wal_level is {facts.wal_level}: set it to logical and restart PostgreSQL"
    if not facts.can_replicate:
        yield f"the role {Role.CDC} may not replicate: ALTER ROLE {Role.CDC} REPLICATION"
    if not facts.has_publication:
        yield f"there is no publication {PUBLICATION}: run include/postgres/publication.sql"
    elif unpublished := sorted(set(CAPTURED_TABLES) - set(facts.published)):
        yield (
            f"the publication {PUBLICATION} lacks {', '.join(unpublished)}: "
            f"ALTER PUBLICATION {PUBLICATION} ADD TABLE {', '.join(unpublished)}"
        )
    if partial := sorted(set(CAPTURED_TABLES) - set(facts.with_full_identity)):
        yield (
            f"changes of {', '.join(partial)} do not carry the whole old row: "
            "ALTER TABLE … REPLICA IDENTITY FULL for each (include/postgres/schema.sql)"
        )
    yield from _slot_problems(facts, first)


def _slot_problems(facts: DatabaseFacts, first: bool) -> Iterator[str]:
    if facts.slot_plugin is None:
        if facts.slots_used >= facts.slots_max:
            yield (
                f"all {facts.slots_max} replication slots are in use: drop one that nobody reads "
                "(view pg_replication_slots) or raise max_replication_slots"
            )
        return
    if facts.slot_plugin != "pgoutput":
        yield (
            f"the slot {REPLICATION_SLOT} decodes with {facts.slot_plugin}, not pgoutput: "
            "somebody else's; drop or rename it"
        )
    if facts.slot_wal_status == "lost":
        yield (
            f"the slot {REPLICATION_SLOT} has lost log that was not read yet (more than "
            "LOCKSTEP_WAL_KEEP_BYTES behind): changes are missing for good; begin change "
            "capture anew with `lockstep capture reset`"
        )
    if first and facts.slot_active:
        yield (
            f"somebody else is reading the slot {REPLICATION_SLOT}: stop that reader "
            "(view pg_stat_replication)"
        )


def _disk_problems(settings: Settings) -> Iterator[str]:
    """Log kept for a reader that is down must not fill the disk of the database."""
    folder = postgres_files.data_folder(settings)
    if not folder.exists():  # not the embedded server
        return
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes < settings.wal_keep_bytes:
        yield (
            f"up to {settings.wal_keep_bytes / 1024**3:.1f} GB of log may be kept for the slot, "
            f"but {folder} has {free_bytes / 1024**3:.1f} GB free: make room or lower "
            "LOCKSTEP_WAL_KEEP_BYTES"
        )
