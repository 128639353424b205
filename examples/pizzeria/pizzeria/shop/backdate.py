"""Places orders in past hours, as a shop would have had them: for demonstrations and tests.

Each order is a transaction of its own, with outbox row and message, committed now; only its
order_time lies in the past. Live orders are generator.py's.
"""

import random
from collections.abc import Sequence
from datetime import datetime

import psycopg
from lockstep.settings import Settings
from lockstep.sources.postgres import connect

from pizzeria.names import CLIENTS, ORDERS, TABLE_ASSIGNMENT, Login
from pizzeria.shop.books import MAX_PIZZAS
from pizzeria.shop.executor import Ids, begun
from pizzeria.shop.opening import open_shop
from pizzeria.shop.operations import AddTable, Transaction
from pizzeria.shop.pizza_place import PlacedOrder
from pizzeria.shop.replay import replay, transactions_of
from pizzeria.shop.seating import SeatedOrder, seat_orders

# Shares of orders with one to six pizzas; 2.3 on average, as in a year of a real restaurant.
_PIZZA_WEIGHTS = (38, 28, 16, 10, 5, 3)


def place_orders_at(settings: Settings, times: Sequence[datetime], seed: int) -> int:
    """Place one order at each of these times (with time zones), in their order; gives their number.

    Clients, tables and pizzas follow from times and seed, given the menu; ids are the database's
    next ones, so that calling it twice places the orders twice. Opens the shop if it has no menu.
    Raises PostgresUnavailableError.
    """
    with connect(settings, Login.SHOP) as connection:
        transactions, ids = orders_at(connection, times, seed)
        replay(connection, transactions, ids)
    return len(transactions)


def orders_at(
    connection: psycopg.Connection,
    times: Sequence[datetime],
    seed: int,
    rate: float | None = None,
) -> tuple[list[Transaction], Ids]:
    """The transactions of place_orders_at, not applied yet, and the ids of all their rows.

    Due by `rate`, in orders a second. The menu and the tables that they need are in the database
    when this returns.
    """
    menu = open_shop(connection).pizza_ids
    seated = seat_orders(_orders(sorted(times), len(menu), seed), seed)
    ids = {("pizza", number): id_ for number, id_ in enumerate(menu)}
    ids |= _tables(connection, seated)
    transactions = list(transactions_of(seated, ids, rate))
    return transactions, ids | _next_ids(connection, seated)


def _orders(times: Sequence[datetime], menu_size: int, seed: int) -> list[PlacedOrder]:
    rng = random.Random(seed)  # noqa: S311 - made-up orders, not a secret
    sizes = rng.choices(range(1, MAX_PIZZAS + 1), _PIZZA_WEIGHTS, k=len(times))
    return [
        PlacedOrder(number, moment, tuple(rng.choices(range(menu_size), k=size)))
        for number, (moment, size) in enumerate(zip(times, sizes, strict=True), start=1)
    ]


def _tables(connection: psycopg.Connection, seated: Sequence[SeatedOrder]) -> Ids:
    """The shop's tables of the wanted names; those that it lacks are brought in first."""
    wanted = {entry.assignment.table.name: entry.assignment.table.id for entry in seated}
    rows = connection.execute("SELECT name, id FROM tables ORDER BY id DESC")
    ids = {("table", wanted[name]): id_ for name, id_ in rows if name in wanted}
    lacking = [name for name in sorted(wanted) if ("table", wanted[name]) not in ids]
    with begun(connection, ids) as work:
        work.apply(*(AddTable(wanted[name], name) for name in lacking))
    return ids


def _next_ids(connection: psycopg.Connection, seated: Sequence[SeatedOrder]) -> Ids:
    """The database's next ids for the rows of these orders, which are numbered from 1."""
    counts = {
        ("client", CLIENTS): max((entry.assignment.client.id for entry in seated), default=0),
        ("assignment", TABLE_ASSIGNMENT): max((e.assignment.id for e in seated), default=0),
        ("order", ORDERS): len(seated),
    }
    query = "SELECT nextval(pg_get_serial_sequence(%s, 'id')) FROM generate_series(1, %s)"
    return {
        (kind, number): id_
        for (kind, table), count in counts.items()
        for number, (id_,) in enumerate(connection.execute(query, (table, count)), start=1)
    }
