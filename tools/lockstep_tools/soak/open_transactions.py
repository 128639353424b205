"""Transactions that stay open while services restart, and what each of them changed.

Every change carries a name of its own, so that the change topic can be asked for exactly it. What
was committed is decided by the database, never guessed: when the connection broke, it is asked.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count, islice

import psycopg
from lockstep.settings import Settings
from lockstep.sources.errors import PostgresUnavailableError
from lockstep.sources.postgres import connect
from pizzeria.names import CLIENTS, PIZZAS, TABLES, Login
from pizzeria.shop import operations as ops
from pizzeria.shop.executor import Work
from pizzeria.shop.writers import OUTAGE_SECONDS_MAX, Writers

from lockstep_tools.soak.commit_status import committed_ids

Change = tuple[str, str, str]
"""(table, op, name)."""
MESSAGES = "messages"
"""Stands for the table of a logical message."""
MESSAGE_PREFIX = "lockstep.soak"
COPIED_ROWS = 4
"""Rows of one COPY share their position in the log."""
DELETED = 0.3
"""Of the changes of a client: the client is deleted."""
DATABASE_SECONDS_MAX = 60.0
PAUSE_SECONDS = 0.1


@dataclass
class Written:
    """A transaction and its changes; `tx_id` has 64 bits."""

    label: str
    tx_id: int = 0
    changes: list[Change] = field(default_factory=list)
    begun_seconds: float = field(default_factory=time.monotonic)

    @property
    def counts(self) -> Counter[str]:
        """The changes by table."""
        return Counter(table for table, _, _ in self.changes)


class OpenTransaction:
    """One transaction of the shop. Not for two threads at once."""

    def __init__(self, settings: Settings, label: str, rng: random.Random) -> None:
        """Begin it. Raises PostgresUnavailableError."""
        self.written = Written(label)
        self.is_broken = False
        self._steps = _named_steps(label, rng)
        with ExitStack() as stack:
            connection = stack.enter_context(connect(settings, Login.SHOP))
            self._work = Work(connection, {})
            query = "SELECT pg_current_xact_id()::text::bigint"
            self.written.tx_id = connection.execute(query).fetchone()[0]
            self._connected = stack.pop_all()

    def change(self, count: int = 1) -> None:
        """Make that many more changes; a server that is gone ends the transaction.

        One that has ended so makes no more: its next change may need a row that was not written.
        """
        if self.is_broken:
            return
        try:
            for steps, changes in islice(self._steps, count):
                self._work.apply(*steps)
                self.written.changes += changes
        except psycopg.OperationalError:
            self.is_broken = True

    def commit(self) -> None:
        """Commit and close; whether it happened is for `committed` to find out."""
        try:
            if not self.is_broken:
                self._work.end()
        except psycopg.OperationalError:
            self.is_broken = True
        finally:
            self._connected.close()


def _named_steps(label: str, rng: random.Random) -> Iterator[tuple[list[ops.Step], list[Change]]]:
    """Change after change: what to do, and by which names it can be found.

    None is of an order: the streams, which may be at work as well, have nothing to write of it.
    """
    names = (f"{label}-{number}" for number in count())
    clients: list[tuple[int, str]] = []
    for number in count():
        kind = rng.choice(("insert", "update", "copy", "publish"))
        if kind == "copy":
            copied = tuple(islice(names, COPIED_ROWS))
            yield [ops.CopyPizzas(copied)], [(PIZZAS, "c", name) for name in copied]
        elif kind == "publish":
            table, message = islice(names, 2)
            steps = [ops.AddTable(number, table), ops.SendMessage(MESSAGE_PREFIX, message)]
            yield steps, [(TABLES, "c", table), (MESSAGES, "m", message)]
        elif kind == "insert" or not clients:
            clients.append((number, next(names)))
            yield [ops.AddClient(*clients[-1])], [(CLIENTS, "c", clients[-1][1])]
        else:
            client, name = clients.pop()
            if rng.random() < DELETED:
                yield [ops.DeleteClient(client)], [(CLIENTS, "d", name)]
            else:
                clients.append((client, next(names)))
                yield [ops.RenameClient(*clients[-1])], [(CLIENTS, "u", clients[-1][1])]


class Writer(Writers):
    """Commits small transactions all the time, through outages; it can be held for a while."""

    def __init__(self, settings: Settings, label: str, rng: random.Random) -> None:
        super().__init__(OUTAGE_SECONDS_MAX)
        self.written: list[Written] = []
        self._settings, self._label, self._rng = settings, label, rng
        self._goes_on = threading.Event()
        self._goes_on.set()
        self.add(self._write)

    def hold(self) -> None:
        self._goes_on.clear()

    def go_on(self) -> None:
        self._goes_on.set()

    def halt(self) -> None:
        super().halt()
        self.go_on()

    def _write(self) -> Iterator[float]:
        while True:
            self._goes_on.wait()
            label = f"{self._label}-{len(self.written) + 1}"
            one = OpenTransaction(self._settings, label, self._rng)
            one.change(self._rng.randint(1, 3))
            one.commit()
            self.written.append(one.written)
            yield self._rng.uniform(0, PAUSE_SECONDS)


def committed(settings: Settings, written: list[Written]) -> list[Written]:
    """Those that the database says were committed, in any order; waits for a server that starts.

    A server that was killed gives an id again of which nothing had reached its log: the last
    transaction with an id is the one that the database names.
    """
    by_id = {one.tx_id: one for one in sorted(written, key=lambda one: one.begun_seconds)}
    deadline = time.monotonic() + DATABASE_SECONDS_MAX
    while True:
        try:
            with connect(settings, Login.SHOP) as connection:
                return [by_id[tx_id] for tx_id in committed_ids(connection, list(by_id))]
        except PostgresUnavailableError:
            if time.monotonic() > deadline:
                raise
            time.sleep(PAUSE_SECONDS)
