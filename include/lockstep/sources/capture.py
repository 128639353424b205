"""What the database says of change capture: its own identity, and the state of the slot."""

from typing import NamedTuple

from lockstep.contracts import REPLICATION_SLOT, Role
from lockstep.settings import PROJECT_DIR, Settings
from lockstep.sources.postgres import connect

_QUERY = PROJECT_DIR / "include" / "postgres" / "capture" / "facts.sql"


class CaptureFacts(NamedTuple):
    """The slot's part is None when there is no slot; has_mark also before PostgreSQL 17.

    has_mark: Debezium creates the slot with `failover` on (include/connectors), which nobody who
    recreates one by hand does by chance; PostgreSQL keeps it with the slot, through any crash.
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


def read_capture_facts(settings: Settings) -> CaptureFacts:
    """Ask the database; raises PostgresUnavailableError when it does not answer."""
    with connect(settings, Role.BATCH_READER, application_name="lockstep capture") as connection:
        query = _QUERY.read_text(encoding="utf-8")
        return CaptureFacts(*connection.execute(query, {"slot": REPLICATION_SLOT}).fetchone())
