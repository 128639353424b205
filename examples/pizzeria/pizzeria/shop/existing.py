"""What the database already holds of a data set, and whether it is the same data set.

Reads and compares; loader.py writes what is missing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import psycopg

from pizzeria.errors import InputDataError
from pizzeria.shop.pizza_place import PizzaPlace
from pizzeria.shop.seating import SeatedOrder

_ASSIGNMENTS = "SELECT id, client_id, table_id, in_time FROM table_assignment"
_ORDERS = "SELECT id, table_assignment_id, order_time, pizzas FROM orders"


@dataclass
class Existing:
    """The rows there are, by id, with what identifies them. Grows as the loader inserts."""

    pizzas: dict[int, str]
    tables: dict[int, str]
    clients: set[int]
    assignments: dict[int, tuple[int, int, datetime]]
    orders: dict[int, tuple[int, datetime, list[int]]]


def read_existing(connection: psycopg.Connection) -> Existing:
    """Read the five tables in one snapshot."""
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        run = connection.execute
        return Existing(
            pizzas=dict(run("SELECT id, name FROM pizzas").fetchall()),
            tables=dict(run("SELECT id, name FROM tables").fetchall()),
            clients={id_ for (id_,) in run("SELECT id FROM clients")},
            assignments={row[0]: row[1:] for row in run(_ASSIGNMENTS)},
            orders={row[0]: row[1:] for row in run(_ORDERS)},
        )


def check_consistent(data: PizzaPlace, seated: Sequence[SeatedOrder], existing: Existing) -> None:
    """Refuse a database that uses the data set's ids for something else.

    Prices, clients' names and departures may have moved on since an earlier load; what an id
    stands for may not. Raises InputDataError naming the pizza or the order.
    """
    for pizza in data.menu:
        name = existing.pizzas.get(pizza.id, pizza.name)
        if name != pizza.name:
            raise _other(f"pizza {pizza.id}", f"{name!r}", f"{pizza.name!r}")
    introduced: set[int] = set()
    for entry in seated:
        _check_order(entry, existing, introduced)


def _check_order(entry: SeatedOrder, existing: Existing, introduced: set[int]) -> None:
    order, seating = entry.order, entry.assignment
    wanted = (seating.id, order.order_time, list(order.pizzas))
    found = existing.orders.get(order.id, wanted)
    if found != wanted:
        raise _other(f"order {order.id}", _order_text(*found), _order_text(*wanted))
    where = f"for order {order.id}, "
    table_name = existing.tables.get(seating.table.id, seating.table.name)
    if table_name != seating.table.name:
        raise _other(f"{where}table {seating.table.id}", repr(table_name), seating.table.name)
    key = (seating.client.id, seating.table.id, seating.in_time)
    seated_as = existing.assignments.get(seating.id)
    if seated_as not in (None, key):
        raise _other(
            f"{where}assignment {seating.id}", _seating_text(*seated_as), _seating_text(*key)
        )
    # A client comes with the first assignment: one without it is somebody else.
    if seating.client.id not in introduced:
        introduced.add(seating.client.id)
        if seated_as is None and seating.client.id in existing.clients:
            raise _other(
                f"{where}client {seating.client.id}", "another client", seating.client.name
            )


def _order_text(assignment_id: int, order_time: datetime, pizzas: list[int]) -> str:
    return f"assignment {assignment_id} at {order_time.isoformat()} with pizzas {pizzas}"


def _seating_text(client_id: int, table_id: int, in_time: datetime) -> str:
    return f"client {client_id} at table {table_id} from {in_time.isoformat()}"


def _other(what: str, found: str, wanted: str) -> InputDataError:
    return InputDataError(
        f"{what}: the database already holds {found}, the files say {wanted}; "
        "load into an empty database, or the same files as before"
    )
