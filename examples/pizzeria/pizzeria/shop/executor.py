"""Turns steps into SQL and publishes what they touched: the one place that writes orders.

What happens is operations.py's to say. The publishing order is fixed here: every order that the
transaction touched, once, in id order, at its very end.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

import psycopg
from psycopg import errors
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from pizzeria.shop import operations as ops

# Two that insert the same order again (moving_pizzas.py) collide on its key.
COLLISIONS = (errors.DeadlockDetected, errors.SerializationFailure, errors.UniqueViolation)
ATTEMPTS_MAX = 20  # a collision takes at least one writer forward, so 20 in a row is a defect
_RETRY_WAIT = wait_random_exponential(multiplier=0.01, max=1)
NEVER = threading.Event()
"""For those that are not to be stopped: it is never set."""

Ids = dict[tuple[str, int], int]
"""The database's ids of the numbers in steps, by ("client" | "table" | "pizza" | …, number)."""

# By the step's fields, numbers replaced by ids. A row whose number has no id yet gets the next one.
_STATEMENTS: dict[type[ops.Step], str] = {
    ops.AddClient: """INSERT INTO clients (id, name)
        VALUES (coalesce(%(client)s, nextval('clients_id_seq')), %(name)s)""",
    ops.RenameClient: "UPDATE clients SET name = %(name)s WHERE id = %(client)s",
    ops.DeleteClient: "DELETE FROM clients WHERE id = %(client)s",
    ops.AddTable: """INSERT INTO tables (id, name)
        VALUES (coalesce(%(table)s, nextval('tables_id_seq')), %(name)s)""",
    ops.AddPizza: """INSERT INTO pizzas (id, name, price)
        VALUES (coalesce(%(pizza)s, nextval('pizzas_id_seq')), %(name)s, %(price)s)""",
    ops.SetPrice: "UPDATE pizzas SET price = %(price)s WHERE id = %(pizza)s",
    ops.SitDown: """INSERT INTO table_assignment (id, client_id, table_id, in_time, out_time)
        VALUES (
            coalesce(%(assignment)s, nextval('table_assignment_id_seq')),
            %(client)s, %(table)s, coalesce(%(in_time)s, now()), %(out_time)s
        )""",
    ops.Leave: "UPDATE table_assignment SET out_time = now() WHERE id = %(assignment)s",
    ops.AddOrder: """INSERT INTO orders (id, table_assignment_id, order_time, pizzas)
        VALUES (
            coalesce(%(order)s, nextval('orders_id_seq')),
            %(assignment)s, coalesce(%(order_time)s, now()), %(pizzas)s
        )""",
    ops.SetPizzas: "UPDATE orders SET pizzas = %(pizzas)s WHERE id = %(order)s",
    ops.MoveOrder: "UPDATE orders SET table_assignment_id = %(assignment)s WHERE id = %(order)s",
    ops.DeleteOrder: "DELETE FROM orders WHERE id = %(order)s",
    ops.SendMessage: "SELECT pg_logical_emit_message(true, %(prefix)s, %(content)s)",
}
_ROWS = {"client", "table", "pizza", "assignment", "order"}
"""Fields that name a row. An INSERT's first field names the row that it makes."""
_OPS = {ops.AddOrder: "c", ops.SetPizzas: "u", ops.MoveOrder: "u", ops.DeleteOrder: "d"}


class Work:
    """A READ COMMITTED transaction under way, which knows what orders it has touched."""

    def __init__(
        self,
        connection: psycopg.Connection,
        ids: Ids | None = None,
        stop: threading.Event = NEVER,
    ) -> None:
        """Begin it. Rows made are added to `ids`; without `ids` the steps' numbers are ids.

        `stop` cuts a wait (Hold) short.
        """
        self._connection = connection
        # One cursor for all: a cursor a statement is half of a pipelined load's processor time.
        self._run = connection.cursor().execute
        self._ids = ids
        self._stop = stop
        self._touched: dict[int, str] = {}
        self._run("BEGIN ISOLATION LEVEL READ COMMITTED")

    def apply(self, *steps: ops.Step) -> None:
        """Do these steps, one after the other. Raises psycopg.Error."""
        for step in steps:
            match step:
                case ops.Kept(inner):
                    self._run("SAVEPOINT half_of_it")
                    self.apply(*inner)
                    self._run("RELEASE SAVEPOINT half_of_it")
                case ops.Undone(inner):
                    self._undo(inner)
                case ops.CopyPizzas(names):
                    self._copy(names)
                case ops.Hold(seconds):
                    self._stop.wait(seconds)
                case _:
                    self._write(step)

    def publish(self) -> None:
        """Publish what was touched since the last time: each order once, in id order."""
        for order_id, op in sorted(self._touched.items()):
            self._run("SELECT publish_order(%s, %s)", (order_id, op))
        self._touched = {}

    def end(self, *, commits: bool = True) -> None:
        """Publish, then commit or roll back."""
        self.publish()
        self._run("COMMIT" if commits else "ROLLBACK")

    def _write(self, step: ops.Step) -> None:
        statement, fields = _STATEMENTS[type(step)], vars(step)
        new = next(iter(fields)) if statement.startswith("INSERT") else ""
        values = {name: self._value(name, value, new) for name, value in fields.items()}
        if new and values[new] is None:
            (values[new],) = self._run(f"{statement} RETURNING id", values).fetchone()
            self._ids[new, fields[new]] = values[new]
        else:
            self._run(statement, values)
        if op := _OPS.get(type(step)):
            # A change counts as an update unless the transaction made the order.
            order_id = values["order"]
            self._touched[order_id] = self._touched.get(order_id, op) if op == "u" else op

    def _value(self, name: str, value: object, new: str = "") -> object:
        """What a statement needs of a field; None for the id of a row that has none yet."""
        if name == "pizzas":
            return [self._value("pizza", pizza) for pizza in value]
        if self._ids is None or name not in _ROWS:
            return value
        return self._ids.get((name, value)) if name == new else self._ids[name, value]

    def _undo(self, steps: tuple[ops.Step, ...]) -> None:
        touched, self._touched = self._touched, {}
        self._run("SAVEPOINT before_second_thoughts")
        self.apply(*steps)
        self.publish()
        self._run("ROLLBACK TO SAVEPOINT before_second_thoughts")
        self._touched = touched

    def _copy(self, names: tuple[str, ...]) -> None:
        statement = "COPY pizzas (name, price) FROM STDIN"
        with self._connection.cursor() as cursor, cursor.copy(statement) as rows:
            for name in names:
                rows.write_row((name, 1))


@contextmanager
def begun(
    connection: psycopg.Connection,
    ids: Ids | None = None,
    stop: threading.Event = NEVER,
    *,
    commits: bool = True,
) -> Iterator[Work]:
    """A transaction that ends with the block: all or nothing."""
    try:
        work = Work(connection, ids, stop)
        yield work
        work.end(commits=commits)
    except BaseException:
        with suppress(psycopg.Error):  # a broken connection has rolled back
            connection.execute("ROLLBACK")
        raise


def transact(
    connection: psycopg.Connection,
    steps: Callable[[], Iterable[ops.Step]],
    ids: Ids | None = None,
    stop: threading.Event = NEVER,
    *,
    commits: bool = True,
) -> int:
    """Apply what `steps` gives once the transaction has begun; again when writers collide.

    Gives the number of collisions (deadlocks, serialization failures, keys taken meanwhile). An id
    that a rolled back attempt has taken stays the row's. Raises psycopg.Error when the steps
    cannot be applied.
    """
    retrying = Retrying(
        retry=retry_if_exception_type(COLLISIONS),
        stop=stop_after_attempt(ATTEMPTS_MAX),
        wait=_RETRY_WAIT,
        reraise=True,
    )
    for attempt in retrying:
        with attempt, begun(connection, ids, stop, commits=commits) as work:
            for step in steps():
                work.apply(step)
    return attempt.retry_state.attempt_number - 1


def execute(
    connection: psycopg.Connection,
    transaction: ops.Transaction,
    ids: Ids | None = None,
    stop: threading.Event = NEVER,
) -> int:
    """transact() with a planned transaction's steps."""
    return transact(connection, lambda: transaction.steps, ids, stop, commits=transaction.commits)
