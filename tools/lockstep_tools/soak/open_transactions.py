"""Transactions that stay open while services restart, and what each of them changed.

Every change carries a name of its own, so that the change topic can be asked for exactly it. What
was committed is decided by the database, never guessed: when the connection broke, it is asked.
"""

import random
import threading
import time
from collections import Counter
from contextlib import closing, suppress
from dataclasses import dataclass, field

import psycopg
from lockstep.contracts import CLIENTS, PIZZAS, TABLES, Role
from lockstep.errors import PostgresUnavailableError
from lockstep.settings import Settings
from lockstep.sources.postgres import connect

MESSAGES = "messages"
"""Stands for the table of a logical message."""
MESSAGE_PREFIX = "lockstep.soak"
COPIED_ROWS = 4
"""Rows of one COPY share their position in the log."""
DATABASE_SECONDS_MAX = 60.0
PAUSE_SECONDS = 0.1


@dataclass
class Written:
    """A transaction and its changes, as (table, op, name); `tx_id` has 64 bits."""

    label: str
    tx_id: int = 0
    changes: list[tuple[str, str, str]] = field(default_factory=list)
    begun_seconds: float = field(default_factory=time.monotonic)

    @property
    def counts(self) -> Counter[str]:
        """The changes by table."""
        return Counter(table for table, _, _ in self.changes)


class OpenTransaction:
    """One transaction of the shop. Not for two threads at once."""

    def __init__(self, settings: Settings, label: str, rng: random.Random) -> None:
        self.written = Written(label)
        self.is_broken = False
        self._rng = rng
        self._clients: list[tuple[int, str]] = []
        self._connection = psycopg.connect(**settings.connection(Role.SHOP))
        query = "SELECT pg_current_xact_id()::text::bigint"
        self.written.tx_id = self._connection.execute(query).fetchone()[0]

    def change(self, count: int = 1) -> None:
        """Make that many more changes; a server that is gone ends the transaction."""
        try:
            for _ in range(count):
                self._rng.choice((self._insert, self._update, self._copy, self._publish))()
        except psycopg.OperationalError:
            self.is_broken = True

    def commit(self) -> None:
        """Commit and close; whether it happened is for `committed` to find out."""
        try:
            if not self.is_broken:
                self._connection.commit()
        except psycopg.OperationalError:
            self.is_broken = True
        finally:
            with suppress(psycopg.Error):
                self._connection.close()

    def _name(self) -> str:
        return f"{self.written.label}-{len(self.written.changes)}"

    def _note(self, table: str, op: str, name: str) -> None:
        self.written.changes.append((table, op, name))

    def _insert(self) -> None:
        name = self._name()
        query = f"INSERT INTO {CLIENTS} (name) VALUES (%s) RETURNING id"  # noqa: S608
        self._clients.append((self._connection.execute(query, [name]).fetchone()[0], name))
        self._note(CLIENTS, "c", name)

    def _update(self) -> None:
        """Another name for a client of this transaction, or the client deleted."""
        if not self._clients:
            self._insert()
            return
        client_id, name = self._clients.pop()
        if self._rng.random() < 0.3:  # noqa: PLR2004
            self._connection.execute(f"DELETE FROM {CLIENTS} WHERE id = %s", [client_id])  # noqa: S608
            self._note(CLIENTS, "d", name)
            return
        name = self._name()
        query = f"UPDATE {CLIENTS} SET name = %s WHERE id = %s"  # noqa: S608
        self._connection.execute(query, [name, client_id])
        self._clients.append((client_id, name))
        self._note(CLIENTS, "u", name)

    def _copy(self) -> None:
        with (
            self._connection.cursor() as cursor,
            cursor.copy(f"COPY {PIZZAS} (name, price) FROM STDIN") as rows,
        ):
            for _ in range(COPIED_ROWS):
                name = self._name()
                rows.write_row((name, 1))
                self._note(PIZZAS, "c", name)

    def _publish(self) -> None:
        """Of no order: the streams, which may be at work beside, have nothing to write of it."""
        name = self._name()
        self._connection.execute(f"INSERT INTO {TABLES} (name) VALUES (%s)", [name])  # noqa: S608
        self._note(TABLES, "c", name)
        name = self._name()
        self._connection.execute(
            "SELECT pg_logical_emit_message(true, %s, %s)", [MESSAGE_PREFIX, name]
        )
        self._note(MESSAGES, "m", name)


class Writer:
    """Commits small transactions all the time, as a thread; it can be held for a while."""

    def __init__(self, settings: Settings, label: str, rng: random.Random) -> None:
        self.written: list[Written] = []
        self._settings, self._label, self._rng = settings, label, rng
        self._goes_on, self._ended = threading.Event(), threading.Event()
        self._goes_on.set()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._failure: Exception | None = None

    def start(self) -> None:
        self._thread.start()

    def hold(self) -> None:
        self._goes_on.clear()

    def go_on(self) -> None:
        self._goes_on.set()

    def stop(self) -> None:
        """Raises what ended the writer before its time."""
        self._ended.set()
        self._goes_on.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _work(self) -> None:
        try:
            self._write_transactions()
        except Exception as error:  # raised again by stop(), in the caller's thread
            self._failure = error

    def _write_transactions(self) -> None:
        number = 0
        while not self._ended.is_set():
            self._goes_on.wait()
            number += 1
            try:
                one = OpenTransaction(self._settings, f"{self._label}-{number}", self._rng)
            except psycopg.OperationalError:
                time.sleep(PAUSE_SECONDS)
                continue
            one.change(self._rng.randint(1, 3))
            one.commit()
            self.written.append(one.written)
            time.sleep(self._rng.uniform(0, PAUSE_SECONDS))


def committed(settings: Settings, written: list[Written]) -> list[Written]:
    """Those that the database says were committed, in any order; waits for a server that starts.

    A server that was killed gives an id again of which nothing had reached its log: the last
    transaction with an id is the one that the database speaks of.
    """
    by_id = {one.tx_id: one for one in sorted(written, key=lambda one: one.begun_seconds)}
    deadline = time.monotonic() + DATABASE_SECONDS_MAX
    while True:
        try:
            with connect(settings, Role.SHOP) as connection, closing(connection.cursor()) as cursor:
                rows = cursor.execute(
                    "SELECT id FROM unnest(%s::bigint[]) AS id "
                    "WHERE pg_xact_status(id::text::xid8) = 'committed'",
                    [list(by_id)],
                ).fetchall()
        except PostgresUnavailableError:
            if time.monotonic() > deadline:
                raise
            time.sleep(PAUSE_SECONDS)
            continue
        return [by_id[tx_id] for (tx_id,) in rows]
