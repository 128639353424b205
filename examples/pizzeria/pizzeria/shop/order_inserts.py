"""Inserts seated orders, each in a transaction of its own, several in flight at once.

Which orders, and under which ids, is the caller's (loader.py, backdate.py).
"""

from collections.abc import Callable, Sequence
from itertools import islice

import psycopg
from psycopg import errors

from pizzeria.errors import InputDataError
from pizzeria.shop.existing import Existing
from pizzeria.shop.seating import SeatedOrder

# Orders sent before their answers are awaited: enough to hide the round trip, few enough that an
# error names a near neighbourhood.
IN_FLIGHT = 64
# Waiting for the disk once an order is nearly all of the time (340 orders a second against 2,200).
# Commits stay whole and in order, and the last order's waits for the disk for all of them; a server
# that crashes before it loses the newest orders whole.
_WAIT_FOR_DISK = {False: "SET synchronous_commit = off", True: "SET synchronous_commit = on"}

BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"
_CLIENT = "INSERT INTO clients (id, name) VALUES (%s, %s)"
_TABLE = "INSERT INTO tables (id, name) VALUES (%s, %s)"
_ASSIGNMENT = """
INSERT INTO table_assignment (id, client_id, table_id, in_time, out_time)
VALUES (%s, %s, %s, %s, %s)
"""
_ORDER = """
INSERT INTO orders (id, table_assignment_id, order_time, pizzas) VALUES (%s, %s, %s, %s)
"""
_PUBLISH = "SELECT publish_order(%s, 'c')"


def insert_orders(
    connection: psycopg.Connection,
    seated: Sequence[SeatedOrder],
    existing: Existing,
    on_progress: Callable[[int], None] = lambda _orders: None,
) -> None:
    """Insert the orders in their order; when this returns, all of them are on disk.

    Each order's transaction inserts the client, table and assignment that `existing` lacks (and
    adds them to it), then the order, then publishes it. Raises InputDataError when an id is taken,
    psycopg.Error otherwise; what was committed by then stays.
    """
    remaining = iter(seated[:-1])
    connection.execute(_WAIT_FOR_DISK[False])
    while group := list(islice(remaining, IN_FLIGHT)):
        _insert_group(connection, group, existing)
        on_progress(len(group))
    connection.execute(_WAIT_FOR_DISK[True])
    _insert_group(connection, seated[-1:], existing)
    on_progress(len(seated[-1:]))


def _insert_group(
    connection: psycopg.Connection, group: Sequence[SeatedOrder], existing: Existing
) -> None:
    """Send these orders' transactions one behind the other, then await all the answers."""
    try:
        with connection.pipeline():
            for entry in group:
                connection.execute(BEGIN)
                insert_order(connection, entry, existing)
                connection.execute("COMMIT")
    except errors.UniqueViolation as error:
        raise InputDataError(
            f"while orders {group[0].order.id} to {group[-1].order.id} were inserted, someone "
            f"else inserted the same id ({error.diag.message_detail}); run the command again"
        ) from error


def insert_order(connection: psycopg.Connection, entry: SeatedOrder, existing: Existing) -> None:
    """Insert and publish one order in the caller's transaction, which is READ COMMITTED."""
    order, seating = entry.order, entry.assignment
    client, table = seating.client, seating.table
    run = connection.execute
    if client.id not in existing.clients:
        run(_CLIENT, (client.id, client.name))
        existing.clients.add(client.id)
    if table.id not in existing.tables:
        run(_TABLE, (table.id, table.name))
        existing.tables[table.id] = table.name
    if seating.id not in existing.assignments:
        key = (client.id, table.id, seating.in_time)
        run(_ASSIGNMENT, (seating.id, *key, seating.out_time))
        existing.assignments[seating.id] = key
    run(_ORDER, (order.id, seating.id, order.order_time, list(order.pizzas)))
    run(_PUBLISH, (order.id,))
