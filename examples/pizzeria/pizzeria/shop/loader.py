"""Replays a pizza-place data set into the database: the menu, then one transaction an order.

How the orders came to their tables is seating.py's; what is already there is existing.py's. Rows
are inserted one by one and never COPYed, for change data capture is to see a shop at work.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
from lockstep.settings import Settings
from lockstep.sources.postgres import connect

from pizzeria.errors import InputDataError
from pizzeria.names import CLIENTS, ORDERS, PIZZAS, TABLE_ASSIGNMENT, TABLES, Login
from pizzeria.shop.executor import begun
from pizzeria.shop.existing import check_consistent, read_existing
from pizzeria.shop.operations import AddPizza
from pizzeria.shop.pizza_place import MenuPizza, PizzaPlace
from pizzeria.shop.replay import replay, transactions_of
from pizzeria.shop.seating import SeatedOrder, seat_orders
from pizzeria.shop.totals import Totals, totals_of
from pizzeria.shop.writers import when_due

# A killed load's server process lives on for a moment, and commits what it had received.
LOCK_WAIT_SECONDS = 30
_LOAD_LOCK = "lockstep orders load"

# Only ever forward: a sequence that generated orders have moved further stays where it is.
_MOVE_SEQUENCE = """
SELECT setval(sequence.name, %(id)s)
FROM (SELECT pg_get_serial_sequence(%(table)s, 'id')::regclass AS name) AS sequence
WHERE coalesce(pg_sequence_last_value(sequence.name), 0) < %(id)s
"""


@dataclass(frozen=True)
class LoadReport:
    """What a load did; `found` is read back from the database, for the files' orders alone."""

    loaded: int
    skipped: int
    seconds: float
    found: Totals

    @property
    def orders_per_second(self) -> float:
        return self.loaded / self.seconds if self.seconds else 0.0


def load(
    settings: Settings,
    data: PizzaPlace,
    rate: float | None = None,
    on_progress: Callable[[int], None] = lambda _orders: None,
) -> LoadReport:
    """Insert the menu and every order that is not there yet, in order of order_time.

    Each order is one transaction: the client, table and assignment it is the first to need, the
    order, its outbox row and message. `rate` is in orders a second (open loop: a slow database
    makes orders late, never fewer); None means as fast as the database takes them. Killed at any
    moment and run again, it ends with the same rows. `on_progress` gets numbers of orders done.

    Raises InputDataError, before it writes, when the database holds something else under the same
    ids, and PostgresUnavailableError.
    """
    seated = seat_orders(data.orders)
    with connect(settings, Login.SHOP) as connection, _only_load(connection):
        existing = read_existing(connection)
        check_consistent(data, seated, existing)
        missing = [entry for entry in seated if ("order", entry.order.id) not in existing]
        transactions = transactions_of(missing, existing, rate)
        on_progress(len(seated) - len(missing))
        _move_sequences(connection, data, seated)
        started = time.monotonic()
        _insert_menu(connection, [p for p in data.menu if ("pizza", p.id) not in existing])
        if rate:
            for transaction in when_due(transactions, time.monotonic()):
                replay(connection, [transaction], on_progress=on_progress)
        else:
            replay(connection, transactions, on_progress=on_progress)
        seconds = time.monotonic() - started
        found = totals_of(connection, [order.id for order in data.orders])
    return LoadReport(len(missing), len(seated) - len(missing), seconds, found)


@contextmanager
def _only_load(connection: psycopg.Connection) -> Iterator[None]:
    """Hold the database's one place for a load; given back when the connection ends, too."""
    deadline = time.monotonic() + LOCK_WAIT_SECONDS
    while not connection.execute(
        "SELECT pg_try_advisory_lock(hashtext(%s))", [_LOAD_LOCK]
    ).fetchone()[0]:
        if time.monotonic() > deadline:
            raise InputDataError(
                f"another `lockstep orders load` has been running for {LOCK_WAIT_SECONDS} s "
                "and more; wait until it has ended, then run this one again"
            )
        time.sleep(0.2)
    yield


def _move_sequences(
    connection: psycopg.Connection, data: PizzaPlace, seated: Sequence[SeatedOrder]
) -> None:
    """Reserve the files' ids before the first row, so that orders generated meanwhile differ."""
    last_ids = {
        PIZZAS: len(data.menu),
        TABLES: max(entry.assignment.table.id for entry in seated),
        CLIENTS: max(entry.assignment.client.id for entry in seated),
        TABLE_ASSIGNMENT: max(entry.assignment.id for entry in seated),
        ORDERS: max(entry.order.id for entry in seated),
    }
    for table, last_id in last_ids.items():
        connection.execute(_MOVE_SEQUENCE, {"table": table, "id": last_id})


def _insert_menu(connection: psycopg.Connection, menu: Sequence[MenuPizza]) -> None:
    """The whole menu in one transaction, as it goes up on the wall at once."""
    with begun(connection) as work:
        work.apply(*(AddPizza(pizza.id, pizza.name, pizza.price) for pizza in menu))
