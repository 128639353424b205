"""Turns seated orders into transactions, one an order, and replays them at full speed.

Which orders, and under which ids, is the caller's (loader.py, backdate.py).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

import psycopg
from psycopg import errors

from pizzeria.errors import InputDataError
from pizzeria.shop import operations as ops
from pizzeria.shop.executor import Ids, begun
from pizzeria.shop.seating import SeatedOrder

# Orders sent before their answers are awaited: enough to hide the round trip, few enough that an
# error names a near neighbourhood.
IN_FLIGHT = 64
# Waiting for the disk once an order is nearly all of the time (340 orders a second against 2,200).
# Commits stay whole and in order, and the last order's waits for the disk for all of them; a server
# that crashes before it loses the newest orders whole.
_WAIT_FOR_DISK = {False: "SET synchronous_commit = off", True: "SET synchronous_commit = on"}


def transactions_of(
    seated: Iterable[SeatedOrder],
    known: Iterable[tuple[str, int]] = (),
    rate: float | None = None,
) -> Iterator[ops.Transaction]:
    """A transaction for each order, by the order's number: it and what it is the first to need.

    known: clients, tables and assignments that are there, as ("client", number). Without a rate
    (orders a second) all are due at once.
    """
    known = set(known)
    for place, entry in enumerate(seated):
        rows = _rows(entry)
        steps = tuple(step for row, step in rows.items() if row not in known)
        known.update(rows)
        yield ops.Transaction(entry.order.id, ops.Kind.ORDER, place / rate if rate else 0.0, steps)


def _rows(entry: SeatedOrder) -> dict[tuple[str, int], ops.Step]:
    """The order and all that it refers to, each with the step that makes it."""
    order, seating = entry.order, entry.assignment
    client, table = seating.client, seating.table
    return {
        ("client", client.id): ops.AddClient(client.id, client.name),
        ("table", table.id): ops.AddTable(table.id, table.name),
        ("assignment", seating.id): ops.SitDown(
            seating.id, client.id, table.id, seating.in_time, seating.out_time
        ),
        ("order", order.id): ops.AddOrder(order.id, seating.id, order.pizzas, order.order_time),
    }


def replay(
    connection: psycopg.Connection,
    transactions: Iterable[ops.Transaction],
    ids: Ids | None = None,
    on_progress: Callable[[int], None] = lambda _orders: None,
) -> None:
    """Apply them in their order, due or not; when this returns, all of them are on disk.

    A loop of its own, since it does not await answers: several transactions are on their way at the
    same time. So `ids` must have every row's, and a collision is not tried again. Raises
    InputDataError when an id is taken, psycopg.Error otherwise; what was committed by then stays.
    """
    remaining = iter(transactions)
    group = list(islice(remaining, IN_FLIGHT))
    connection.execute(_WAIT_FOR_DISK[False])
    while following := list(islice(remaining, IN_FLIGHT)):
        _send(connection, group, ids, on_progress)
        group = following
    _send(connection, group[:-1], ids, on_progress)
    connection.execute(_WAIT_FOR_DISK[True])
    _send(connection, group[-1:], ids, on_progress)


def _send(
    connection: psycopg.Connection,
    group: Sequence[ops.Transaction],
    ids: Ids | None,
    on_progress: Callable[[int], None],
) -> None:
    """Send these transactions one behind the other, then await all the answers."""
    try:
        with connection.pipeline():
            for transaction in group:
                with begun(connection, ids) as work:
                    work.apply(*transaction.steps)
    except errors.UniqueViolation as error:
        raise InputDataError(
            f"while orders {group[0].number} to {group[-1].number} were inserted, someone "
            f"else inserted the same id ({error.diag.message_detail}); run the command again"
        ) from error
    on_progress(len(group))
