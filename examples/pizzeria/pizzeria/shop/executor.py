"""Applies one planned transaction to the database, and tries it again when writers collide.

What happens is operations.py's to say, when is generator.py's. The publishing order is fixed here:
every order the transaction touched, once, in id order, at its very end.
"""

import threading
from collections import ChainMap
from collections.abc import Callable

import psycopg
from psycopg import errors
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    stop_after_attempt,
    wait_random_exponential,
)

from pizzeria.shop.opening import Shop
from pizzeria.shop.operations import (
    AddClient,
    AddOrder,
    AddPizza,
    DeleteOrder,
    Hold,
    Leave,
    MoveOrder,
    RenameClient,
    SetPizzas,
    SetPrice,
    SitDown,
    Step,
    Transaction,
    Undone,
)

COLLISIONS = (errors.DeadlockDetected, errors.SerializationFailure)
ATTEMPTS_MAX = 20  # a collision takes at least one writer forward, so 20 in a row is a defect
_RETRY_WAIT = wait_random_exponential(multiplier=0.01, max=1)

Ids = dict[tuple[str, int], int]
"""The database's ids of the plan's numbers, by ("client" | "party" | "order" | …, number)."""


def ids_of(shop: Shop) -> Ids:
    """The numbers a plan begins with: the menu and the tables as they were."""
    pizzas = {("pizza", number): id_ for number, id_ in enumerate(shop.pizza_ids)}
    return pizzas | {("table", number): id_ for number, id_ in enumerate(shop.table_ids)}


def execute(
    connection: psycopg.Connection, transaction: Transaction, ids: Ids, stop: threading.Event
) -> int:
    """Apply the transaction, all or nothing; add its new rows to `ids` once it has committed.

    Gives the number of collisions (deadlocks, serialization failures) after which it began anew.
    `stop` cuts a long transaction's wait short. Raises psycopg.Error when it cannot be applied.
    """
    collisions = 0

    def count(_state: RetryCallState) -> None:
        nonlocal collisions
        collisions += 1

    for attempt in Retrying(
        retry=retry_if_exception_type(COLLISIONS),
        stop=stop_after_attempt(ATTEMPTS_MAX),
        wait=_RETRY_WAIT,
        before_sleep=count,
        reraise=True,
    ):
        with attempt:
            made = _attempt(connection, transaction, ids, stop)
    ids.update(made)
    return collisions


def _attempt(
    connection: psycopg.Connection, transaction: Transaction, ids: Ids, stop: threading.Event
) -> Ids:
    """Gives the ids of the rows made; none if the transaction is one that aborts."""
    made: Ids = {}
    work = _Work(connection, ChainMap(made, ids), stop)
    connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
    try:
        for step in transaction.steps:
            work.apply(step)
        work.publish()
        connection.execute("COMMIT" if transaction.commits else "ROLLBACK")
    except BaseException:
        if not connection.broken:
            connection.execute("ROLLBACK")
        raise
    return made if transaction.commits else {}


class _Work:
    """A transaction under way: what it has made and which orders it has touched so far."""

    def __init__(
        self, connection: psycopg.Connection, ids: ChainMap, stop: threading.Event
    ) -> None:
        self._connection = connection
        self._ids = ids
        self._stop = stop
        self._touched: dict[int, str] = {}

    def apply(self, step: Step) -> None:
        _APPLY[type(step)](self, step)

    def publish(self) -> None:
        for order_id, op in sorted(self._touched.items()):
            self._run("SELECT publish_order(%s, %s)", order_id, op)

    def add_client(self, step: AddClient) -> None:
        self._insert(
            ("client", step.client),
            "INSERT INTO clients (name) VALUES (%s) RETURNING id",
            step.name,
        )

    def rename_client(self, step: RenameClient) -> None:
        self._run(
            "UPDATE clients SET name = %s WHERE id = %s",
            step.name,
            self._ids["client", step.client],
        )

    def add_pizza(self, step: AddPizza) -> None:
        self._insert(
            ("pizza", step.pizza),
            "INSERT INTO pizzas (name, price) VALUES (%s, %s) RETURNING id",
            step.name,
            step.price,
        )

    def set_price(self, step: SetPrice) -> None:
        self._run(
            "UPDATE pizzas SET price = %s WHERE id = %s", step.price, self._ids["pizza", step.pizza]
        )

    def sit_down(self, step: SitDown) -> None:
        self._insert(
            ("party", step.assignment),
            "INSERT INTO table_assignment (client_id, table_id, in_time) "
            "VALUES (%s, %s, now()) RETURNING id",
            self._ids["client", step.client],
            self._ids["table", step.table],
        )

    def leave(self, step: Leave) -> None:
        self._run(
            "UPDATE table_assignment SET out_time = now() WHERE id = %s",
            self._ids["party", step.assignment],
        )

    def add_order(self, step: AddOrder) -> None:
        order_id = self._insert(
            ("order", step.order),
            "INSERT INTO orders (table_assignment_id, order_time, pizzas) "
            "VALUES (%s, now(), %s) RETURNING id",
            self._ids["party", step.assignment],
            self._pizza_ids(step.pizzas),
        )
        self._touched[order_id] = "c"

    def set_pizzas(self, step: SetPizzas) -> None:
        order_id = self._touch(step.order)
        self._run(
            "UPDATE orders SET pizzas = %s WHERE id = %s", self._pizza_ids(step.pizzas), order_id
        )

    def move_order(self, step: MoveOrder) -> None:
        self._run(
            "UPDATE orders SET table_assignment_id = %s WHERE id = %s",
            self._ids["party", step.assignment],
            self._touch(step.order),
        )

    def delete_order(self, step: DeleteOrder) -> None:
        order_id = self._ids["order", step.order]
        self._run("DELETE FROM orders WHERE id = %s", order_id)
        self._touched[order_id] = "d"

    def undone(self, step: Undone) -> None:
        kept = dict(self._touched)
        self._run("SAVEPOINT before_second_thoughts")
        for inner in step.steps:
            self.apply(inner)
        self._run("ROLLBACK TO SAVEPOINT before_second_thoughts")
        self._touched = kept

    def hold(self, step: Hold) -> None:
        self._stop.wait(step.seconds)

    def _insert(self, key: tuple[str, int], statement: str, *values: object) -> int:
        (id_,) = self._run(statement, *values).fetchone()
        self._ids[key] = id_
        return id_

    def _touch(self, order: int) -> int:
        """The order's id; its change counts as an update unless this transaction made it."""
        order_id = self._ids["order", order]
        self._touched.setdefault(order_id, "u")
        return order_id

    def _pizza_ids(self, pizzas: tuple[int, ...]) -> list[int]:
        return [self._ids["pizza", pizza] for pizza in pizzas]

    def _run(self, statement: str, *values: object) -> psycopg.Cursor:
        return self._connection.execute(statement, values)


_APPLY: dict[type, Callable[[_Work, Step], None]] = {
    AddClient: _Work.add_client,
    RenameClient: _Work.rename_client,
    AddPizza: _Work.add_pizza,
    SetPrice: _Work.set_price,
    SitDown: _Work.sit_down,
    Leave: _Work.leave,
    AddOrder: _Work.add_order,
    SetPizzas: _Work.set_pizzas,
    MoveOrder: _Work.move_order,
    DeleteOrder: _Work.delete_order,
    Undone: _Work.undone,
    Hold: _Work.hold,
}
