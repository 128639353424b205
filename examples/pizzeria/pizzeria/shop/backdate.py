"""Places orders in past hours, as a shop would have had them: for demonstrations and tests.

Each order is a transaction of its own, with outbox row and message, committed now; only its
order_time lies in the past. Live orders are generator.py's.
"""

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

import psycopg
from lockstep.contracts import CLIENTS, ORDERS, TABLE_ASSIGNMENT, Role
from lockstep.settings import Settings
from lockstep.sources.postgres import connect

from pizzeria.shop.books import MAX_PIZZAS
from pizzeria.shop.existing import Existing
from pizzeria.shop.opening import open_shop
from pizzeria.shop.order_inserts import insert_orders
from pizzeria.shop.pizza_place import PlacedOrder
from pizzeria.shop.seating import Client, DiningTable, SeatedOrder, seat_orders

# Shares of orders with one to six pizzas; 2.3 on average, as in a year of a real restaurant.
_PIZZA_WEIGHTS = (38, 28, 16, 10, 5, 3)


def place_orders_at(settings: Settings, times: Sequence[datetime], seed: int) -> int:
    """Place one order at each of these times (with time zones), in their order; gives their number.

    Clients, tables and pizzas follow from times and seed, given the menu; ids are the database's
    next ones, so that calling it twice places the orders twice. Opens the shop if it has no menu.
    Raises PostgresUnavailableError.
    """
    with connect(settings, Role.SHOP) as connection:
        seated, existing = seated_at(connection, times, seed)
        insert_orders(connection, seated, existing)
    return len(seated)


def seated_at(
    connection: psycopg.Connection, times: Sequence[datetime], seed: int
) -> tuple[list[SeatedOrder], Existing]:
    """The orders that place_orders_at places, not placed yet, and what they build on.

    The menu and the tables that they need are in the database when this returns.
    """
    menu = open_shop(connection).pizza_ids
    seated = seat_orders(_orders(sorted(times), menu, seed), seed)
    tables = _tables(connection, seated)
    return _renumbered(connection, seated, tables), _only(tables)


def _orders(times: Sequence[datetime], menu: Sequence[int], seed: int) -> list[PlacedOrder]:
    rng = random.Random(seed)  # noqa: S311 - made-up orders, not a secret
    sizes = rng.choices(range(1, MAX_PIZZAS + 1), _PIZZA_WEIGHTS, k=len(times))
    return [
        PlacedOrder(number, moment, tuple(rng.choices(menu, k=size)))
        for number, (moment, size) in enumerate(zip(times, sizes, strict=True), start=1)
    ]


def _tables(
    connection: psycopg.Connection, seated: Sequence[SeatedOrder]
) -> dict[str, DiningTable]:
    """The shop's tables by name; those that the orders want and it lacks are brought in first."""
    wanted = {entry.assignment.table.name for entry in seated}
    with connection.transaction(), connection.cursor() as cursor:
        found = {row[1] for row in cursor.execute("SELECT id, name FROM tables")}
        cursor.executemany(
            "INSERT INTO tables (name) VALUES (%s)", [(name,) for name in sorted(wanted - found)]
        )
        rows = cursor.execute("SELECT id, name FROM tables ORDER BY id DESC").fetchall()
    return {name: DiningTable(id_, name) for id_, name in rows}


def _renumbered(
    connection: psycopg.Connection,
    seated: Sequence[SeatedOrder],
    tables: dict[str, DiningTable],
) -> list[SeatedOrder]:
    """The same orders under ids taken from the database's sequences."""
    client_ids = _next_ids(connection, CLIENTS, [e.assignment.client.id for e in seated])
    assignment_ids = _next_ids(connection, TABLE_ASSIGNMENT, [e.assignment.id for e in seated])
    order_ids = _next_ids(connection, ORDERS, [e.order.id for e in seated])
    return [
        replace(
            entry,
            order=replace(entry.order, id=order_ids[entry.order.id]),
            assignment=replace(
                entry.assignment,
                id=assignment_ids[entry.assignment.id],
                client=Client(client_ids[entry.assignment.client.id], entry.assignment.client.name),
                table=tables[entry.assignment.table.name],
            ),
        )
        for entry in seated
    ]


def _next_ids(connection: psycopg.Connection, table: str, numbers: Sequence[int]) -> dict[int, int]:
    """For each distinct number, ascending, the next id of the table's sequence."""
    distinct = sorted(set(numbers))
    rows = connection.execute(
        "SELECT nextval(pg_get_serial_sequence(%s, 'id')) FROM generate_series(1, %s)",
        (table, len(distinct)),
    )
    return dict(zip(distinct, (id_ for (id_,) in rows), strict=True))


def _only(tables: dict[str, DiningTable]) -> Existing:
    """What these orders build on: the tables. Everything else of theirs is new."""
    known = {table.id: table.name for table in tables.values()}
    return Existing(pizzas={}, tables=known, clients=set(), assignments={}, orders={})
