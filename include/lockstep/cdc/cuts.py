"""The cut: which database snapshot an hourly run read, and the marker that makes it findable.

A cut is taken in two steps, and the order matters:

1. one statement in the transaction that exports the snapshot reads `pg_current_snapshot()`;
2. a separate transaction emits the logical message `lockstep.cut.<source>` with the run's id.

Whatever the snapshot sees was committed before the marker, so a stream that has passed the marker
has seen all of it, even in a quiet hour. What else it has seen by then is distinguished by the
snapshot's own list of transactions.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psycopg

XID_SPAN = 2**32
"""A row keeps the last 32 bits of its transaction's id."""


@dataclass(frozen=True)
class Cut:
    """A database snapshot as a run saw it.

    snapshot: `xmin:xmax:xip,…` in 64-bit transaction ids (PostgreSQL's pg_snapshot, whose text
        form the manual defines under "Transaction ID and Snapshot Information Functions").
    marker_lsn: WAL position of the marker message, in bytes since the log's beginning.
    taken_at: the database's clock when the snapshot was taken.
    """

    run_id: str
    snapshot: str
    marker_lsn: int
    taken_at: datetime


@dataclass(frozen=True)
class DatabaseSnapshot:
    """Which transactions a snapshot sees: those below xmax, but for the ones in progress.

    All are 64-bit ids. The manual: "Transaction ID and Snapshot Information Functions".
    """

    xmin: int
    xmax: int
    in_progress: frozenset[int]

    @classmethod
    def parse(cls, text: str) -> "DatabaseSnapshot":
        """Read `xmin:xmax:xip,…`. Raises ValueError when the text is none of these."""
        xmin, xmax, in_progress = text.split(":")
        return cls(int(xmin), int(xmax), frozenset(map(int, filter(None, in_progress.split(",")))))

    def full_tx_id(self, row_xid: int) -> int:
        """The 64-bit id of a transaction that the snapshot sees, of which a row keeps 32 bits.

        It is one of the 2^32 before the snapshot's next one (xmax).
        """
        return self.xmax - (self.xmax - row_xid) % XID_SPAN


@dataclass(frozen=True)
class ExportedSnapshot:
    """A snapshot other sessions can import, for as long as its transaction stays open."""

    name: str
    snapshot: str
    taken_at: datetime
    connection: "psycopg.Connection"


@contextmanager
def exported_snapshot(connection: "psycopg.Connection") -> Iterator[ExportedSnapshot]:
    """Open a read-only repeatable-read transaction and export its snapshot until the block ends.

    The connection is in autocommit. The transaction only reads, so that a connection lost by the
    time the block ends takes nothing along, and is no error any more.
    """
    import psycopg

    connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    try:
        # Spark may read for longer than the server lets a transaction rest.
        connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        row = connection.execute(
            "SELECT pg_export_snapshot(), pg_current_snapshot()::text, clock_timestamp()"
        ).fetchone()
        yield ExportedSnapshot(*row, connection)
    finally:
        with suppress(psycopg.OperationalError):
            connection.execute("ROLLBACK")


def mark_cut(
    connection: "psycopg.Connection", exported: ExportedSnapshot, run_id: str, prefix: str
) -> Cut:
    """Emit the marker message, of this prefix, in a transaction of its own; return the whole cut.

    `connection` must not be the exporting one: the marker has to commit after the snapshot.
    """
    content = json.dumps({"run_id": run_id, "snapshot": exported.snapshot})
    with connection.transaction():
        (marker_lsn,) = connection.execute(
            "SELECT (pg_logical_emit_message(true, %s, %s) - '0/0'::pg_lsn)::bigint",
            (prefix, content),
        ).fetchone()
    return Cut(run_id, exported.snapshot, marker_lsn, exported.taken_at)
