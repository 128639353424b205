"""What the database already holds of a data set, and whether it is the same data set.

Reads and compares; loader.py writes what is missing.
"""

from collections.abc import Sequence

import psycopg

from pizzeria.errors import InputDataError
from pizzeria.shop.pizza_place import PizzaPlace
from pizzeria.shop.seating import SeatedOrder

_QUERIES = {
    "pizza": "SELECT id, name FROM pizzas",
    "table": "SELECT id, name FROM tables",
    "client": "SELECT id FROM clients",
    "assignment": "SELECT id, client_id, table_id, in_time FROM table_assignment",
    "order": "SELECT id, table_assignment_id, order_time, pizzas FROM orders",
}
_TEXTS = {
    "pizza": "{!r}",
    "table": "{!r}",
    "assignment": "client {} at table {} from {}",
    "order": "assignment {} at {} with pizzas {}",
}

Existing = dict[tuple[str, int], list]
"""What identifies each row, by ("client" | "table" | …, id)."""


def read_existing(connection: psycopg.Connection) -> Existing:
    """Read the five tables in one snapshot."""
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        return {
            (kind, id_): identity
            for kind, query in _QUERIES.items()
            for id_, *identity in connection.execute(query)
        }


def check_consistent(data: PizzaPlace, seated: Sequence[SeatedOrder], existing: Existing) -> None:
    """Refuse a database that uses the data set's ids for something else.

    Prices, clients' names and departures may have moved on since an earlier load; what an id
    stands for may not. Raises InputDataError naming the pizza or the order.
    """
    for pizza in data.menu:
        _check(existing, "pizza", pizza.id, [pizza.name])
    introduced: set[int] = set()
    for entry in seated:
        _check_order(entry, existing, introduced)


def _check_order(entry: SeatedOrder, existing: Existing, introduced: set[int]) -> None:
    order, seating = entry.order, entry.assignment
    client, table = seating.client, seating.table
    where = f"for order {order.id}, "
    _check(existing, "order", order.id, [seating.id, order.order_time, list(order.pizzas)])
    _check(existing, "table", table.id, [table.name], where)
    _check(existing, "assignment", seating.id, [client.id, table.id, seating.in_time], where)
    # A client comes with the first assignment: one without it is somebody else.
    if client.id not in introduced:
        introduced.add(client.id)
        if ("assignment", seating.id) not in existing and ("client", client.id) in existing:
            raise _other(f"{where}client {client.id}", "another client", client.name)


def _check(existing: Existing, kind: str, id_: int, wanted: list, where: str = "") -> None:
    found = existing.get((kind, id_), wanted)
    if found != wanted:
        text = _TEXTS[kind].format
        raise _other(f"{where}{kind} {id_}", text(*found), text(*wanted))


def _other(what: str, found: str, wanted: str) -> InputDataError:
    return InputDataError(
        f"{what}: the database already holds {found}, the files say {wanted}; "
        "load into an empty database, or the same files as before"
    )
