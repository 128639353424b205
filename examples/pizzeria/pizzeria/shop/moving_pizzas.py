"""A workload with one invariant: pizzas move between two orders, and none is made or lost.

Every transaction leaves the number of pizzas of all these orders together as it was, so a version
of a stream's table that shows half a transaction, or one without an earlier one, has another.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

import psycopg
from lockstep.contracts import Role
from lockstep.errors import PostgresUnavailableError
from lockstep.settings import Settings
from lockstep.sources.postgres import connect
from psycopg import errors

from pizzeria.shop.opening import open_shop

PIZZAS_EACH = 5  # enough that few orders are empty, few enough that some are
RECONNECT_PAUSE_SECONDS = 0.2
COLLISIONS = (errors.DeadlockDetected, errors.SerializationFailure, errors.UniqueViolation)


class Move(StrEnum):
    """How a transaction moves a pizza. An order that gives its last may be deleted by it, and one
    that was deleted is inserted again when it is given one."""

    PLAIN = "plain"
    TWICE = "both orders changed twice"
    SAVEPOINT_KEPT = "half of it in a savepoint"
    SAVEPOINT_UNDONE = "an order emptied, and rolled back to the savepoint before"
    ABORTED = "aborted"


# Of 10 transactions; the plain ones interleave most.
_WEIGHTS = {
    Move.PLAIN: 5,
    Move.TWICE: 2,
    Move.SAVEPOINT_KEPT: 1,
    Move.SAVEPOINT_UNDONE: 1,
    Move.ABORTED: 1,
}
_DELETED_WHEN_EMPTY = 0.3  # of the orders that gave their last pizza


@dataclass(frozen=True)
class Round:
    """The orders that share `pizzas` pizzas, at all times; all were taken at `order_time`."""

    order_ids: tuple[int, ...]
    pizzas: int
    assignment_id: int
    order_time: datetime


@dataclass
class MoveReport:
    """What was committed, by kind; `outages` is how often the database went away."""

    transactions: Counter[Move] = field(default_factory=Counter)
    collisions: int = 0
    outages: int = 0


def open_round(settings: Settings, orders: int, seed: int) -> Round:
    """Insert the orders, PIZZAS_EACH in each, in one transaction, so that no version has a part."""
    rng = random.Random(seed)  # noqa: S311 - made-up orders, not a secret
    with connect(settings, Role.SHOP) as connection:
        shop = open_shop(connection)
        with connection.transaction():
            assignment_id, order_time = _seat(connection, shop.table_ids[0])
            ids = [
                _insert(
                    connection,
                    assignment_id,
                    order_time,
                    rng.choices(shop.pizza_ids, k=PIZZAS_EACH),
                )
                for _ in range(orders)
            ]
            for order_id in ids:
                connection.execute("SELECT publish_order(%s, 'c')", [order_id])
    return Round(tuple(ids), orders * PIZZAS_EACH, assignment_id, order_time)


def _seat(connection: psycopg.Connection, table_id: int) -> tuple[int, datetime]:
    (client_id,) = connection.execute(
        "INSERT INTO clients (name) VALUES ('The round') RETURNING id"
    ).fetchone()
    return connection.execute(
        "INSERT INTO table_assignment (client_id, table_id, in_time) VALUES (%s, %s, now()) "
        "RETURNING id, in_time",
        [client_id, table_id],
    ).fetchone()


def _insert(
    connection: psycopg.Connection, assignment_id: int, order_time: datetime, pizzas: list[int]
) -> int:
    return connection.execute(
        "INSERT INTO orders (table_assignment_id, order_time, pizzas) VALUES (%s, %s, %s) "
        "RETURNING id",
        [assignment_id, order_time, pizzas],
    ).fetchone()[0]


class Movers:
    """Threads that move pizzas until `stop`, through outages of the database. Use as a context."""

    def __init__(
        self,
        settings: Settings,
        moved: Round,
        *,
        rate: float,
        seed: int,
        writers: int = 3,
        outage_seconds_max: float = 120.0,
    ) -> None:
        """rate: transactions a second of all writers together (open loop)."""
        self.report = MoveReport()
        self._settings = settings
        self._moved = moved
        self._pause_seconds = writers / rate
        self._outage_seconds_max = outage_seconds_max
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._failure: Exception | None = None
        self._threads = [
            threading.Thread(
                target=self._write,
                args=(random.Random(seed * 1000 + number),),  # noqa: S311 - no secret
                name=f"mover-{number}",
            )
            for number in range(writers)
        ]

    def __enter__(self) -> "Movers":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> MoveReport:
        """End after the transactions under way. Raises what ended a writer before its time."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        if self._failure:
            raise self._failure
        return self.report

    def _write(self, rng: random.Random) -> None:
        """One writer: a connection, another after each outage, until told to stop."""
        lost_at: float | None = None
        while not self._stopping.is_set():
            try:
                with connect(self._settings, Role.SHOP) as connection:
                    while not self._stopping.is_set():
                        due = time.monotonic() + rng.uniform(0, 2 * self._pause_seconds)
                        self._one(connection, rng)
                        lost_at = None
                        self._stopping.wait(max(0.0, due - time.monotonic()))
            except PostgresUnavailableError as error:
                if lost_at is None:
                    lost_at = time.monotonic()
                    self._note("outages")
                if time.monotonic() - lost_at > self._outage_seconds_max:
                    self._failure = error
                    return
                self._stopping.wait(RECONNECT_PAUSE_SECONDS)
            except Exception as error:  # raised again by stop(), in the caller's thread
                self._failure = error
                return

    def _one(self, connection: psycopg.Connection, rng: random.Random) -> None:
        move = rng.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
        connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
        try:
            _Transaction(connection, self._moved, rng).apply(move)
            connection.execute("ROLLBACK" if move is Move.ABORTED else "COMMIT")
        except COLLISIONS:
            connection.execute("ROLLBACK")
            self._note("collisions")
            return
        with self._lock:
            self.report.transactions[move] += 1

    def _note(self, what: str) -> None:
        with self._lock:
            setattr(self.report, what, getattr(self.report, what) + 1)


class _Transaction:
    """Two orders, locked in id order, and what they hold; a missing one holds None."""

    def __init__(self, connection: psycopg.Connection, moved: Round, rng: random.Random) -> None:
        self._run = connection.execute
        self._moved = moved
        self._rng = rng
        self._ids = sorted(rng.sample(moved.order_ids, 2))
        rows = self._run(
            "SELECT id, pizzas FROM orders WHERE id = ANY(%s) ORDER BY id FOR UPDATE", [self._ids]
        ).fetchall()
        self._held: dict[int, list[int] | None] = dict.fromkeys(self._ids) | dict(rows)
        self._existed = {id_ for id_, _ in rows}

    def apply(self, move: Move) -> None:
        giver, taker = self._direction()
        if giver is None:
            return
        if move is Move.SAVEPOINT_UNDONE:
            self._run("SAVEPOINT before_second_thoughts")
            self._run("UPDATE orders SET pizzas = '{}' WHERE id = %s", [giver])
            self._run("SELECT publish_order(%s, 'u')", [giver])
            self._run("ROLLBACK TO SAVEPOINT before_second_thoughts")
        self._move(giver, taker, in_savepoint=move is Move.SAVEPOINT_KEPT)
        if move is Move.TWICE and self._held[giver]:
            self._move(giver, taker)
        self._publish()

    def _direction(self) -> tuple[int | None, int]:
        """Who gives and who takes; nobody gives when both are empty."""
        giver, taker = self._rng.sample(self._ids, 2)
        if not self._held[giver]:
            giver, taker = taker, giver
        return (giver if self._held[giver] else None), taker

    def _move(self, giver: int, taker: int, *, in_savepoint: bool = False) -> None:
        given = list(self._held[giver])
        pizza = given.pop(self._rng.randrange(len(given)))
        dissolved = not given and self._rng.random() < _DELETED_WHEN_EMPTY
        if in_savepoint:
            self._run("SAVEPOINT half_of_it")
        self._write(giver, None if dissolved else given)
        if in_savepoint:
            self._run("RELEASE SAVEPOINT half_of_it")
        self._write(taker, [*(self._held[taker] or []), pizza])

    def _write(self, order_id: int, pizzas: list[int] | None) -> None:
        values: Sequence[object]
        if pizzas is None:
            statement, values = "DELETE FROM orders WHERE id = %s", [order_id]
        elif self._held[order_id] is None:
            statement = (
                "INSERT INTO orders (id, table_assignment_id, order_time, pizzas) "
                "VALUES (%s, %s, %s, %s)"
            )
            values = [order_id, self._moved.assignment_id, self._moved.order_time, pizzas]
        else:
            statement, values = "UPDATE orders SET pizzas = %s WHERE id = %s", [pizzas, order_id]
        self._run(statement, values)
        self._held[order_id] = pizzas

    def _publish(self) -> None:
        for order_id in self._ids:
            op = "u" if order_id in self._existed else "c"
            self._run(
                "SELECT publish_order(%s, %s)",
                [order_id, "d" if self._held[order_id] is None else op],
            )
