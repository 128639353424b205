"""What the database says of change capture: its own identity, the state of the slot,
its newest transaction's id."""

from pathlib import Path
from typing import NamedTuple

import psycopg

from lockstep.settings import Settings
from lockstep.sources.database_state import read_publication
from lockstep.sources.postgres import RoleConnection, connect_to
from lockstep.sources.source_database import capturer

_NAME = "lockstep capture"
_POSITION = """
SELECT (confirmed_flush_lsn - '0/0'::pg_lsn)::bigint FROM pg_replication_slots
WHERE slot_name = %s
"""
_QUERY = Path(__file__).with_name("capture_facts.sql")


class CaptureFacts(NamedTuple):
    """The slot's part is None when there is no slot; has_mark also before PostgreSQL 17.

    has_mark: the connector creates its first slot with `failover` on and is configured at once to
    create no other so (capture/connector.py), nor does anyone who creates one by hand; PostgreSQL
    keeps it with the slot, through any crash.
    LSNs are numbers.
    """

    database_system: int
    database_name: str
    has_slot: bool
    wal_status: str | None
    invalidation_reason: str | None
    has_mark: bool | None
    restart_lsn: int | None
    confirmed_lsn: int | None
    current_lsn: int


def read_capture_state(settings: Settings) -> tuple[CaptureFacts, dict[str, int]]:
    """The facts of the source's database and slot; and the tables of its publication, each with the
    number of its membership. Raises as capture_facts_at does.
    """
    with connect_to(capturer(settings), application_name=_NAME) as connection:
        facts = _facts(connection, settings.names.slot)
        publication = read_publication(connection, settings.names.publication)
    members = publication.members if publication else {}
    return facts, {str(table): number for table, number in members.items()}


def capture_facts_at(target: RoleConnection, slot: str) -> CaptureFacts:
    """Ask a database of its slot, as any role.

    Raises PostgresUnavailableError when it does not answer.
    """
    with connect_to(target, application_name=_NAME) as connection:
        return _facts(connection, slot)


def _facts(connection: psycopg.Connection, slot: str) -> CaptureFacts:
    query = _QUERY.read_text(encoding="utf-8")
    return CaptureFacts(*connection.execute(query, {"slot": slot}).fetchone())


def slot_position(target: RoleConnection, slot: str) -> int | None:
    """Up to where a slot's reader has confirmed what it read (an LSN); None without the slot.

    Before that, it is the position that the slot's exported snapshot is of. Raises
    PostgresUnavailableError.
    """
    with connect_to(target, application_name=_NAME) as connection:
        found = connection.execute(_POSITION, [slot]).fetchone()
    return None if found is None else found[0]


def current_xid(settings: Settings) -> int:
    """That of the stack's own database; raises as xid_at does."""
    return xid_at(capturer(settings))


def xid_at(target: RoleConnection) -> int:
    """A 64-bit transaction id of about now. Raises PostgresUnavailableError."""
    with connect_to(target, application_name=_NAME) as connection:
        query = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
        return connection.execute(query).fetchone()[0]
