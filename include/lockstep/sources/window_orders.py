"""A window's orders as PostgreSQL has them, read without Spark under one exported snapshot.

For what asks for a few orders, and must not wait for a JVM. The hourly run reads by JDBC.
"""

import json
from collections.abc import Collection, Iterator
from contextlib import closing
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from psycopg import sql

from lockstep.cdc.cuts import ExportedSnapshot
from lockstep.model.window import Window
from lockstep.sources.postgres_snapshot import VIEW_READ, rendered
from lockstep.sources.snapshot_jdbc import FETCH_ROWS


class DatabaseOrder(NamedTuple):
    """A row of the view: the enriched order, and the row of `orders` that it is made of.

    pizzas: dicts of pizza and price. row_xid: the transaction that wrote the row, 32 bits.
    row_committed_at: None when the database does not track that.
    """

    order_id: int
    order_time: datetime
    client_name: str | None
    table_name: str | None
    pizzas: list[dict[str, str | Decimal | None]]
    table_assignment_id: int
    pizza_ids: list[int]
    row_xid: int
    row_committed_at: datetime | None


def order_versions(exported: ExportedSnapshot, window: Window) -> dict[int, int]:
    """Of each order of the window the transaction that wrote its row (32 bits)."""
    return dict(exported.connection.execute(rendered("order_versions", window)))


def orders_in(
    exported: ExportedSnapshot, window: Window, ids: Collection[int] | None = None
) -> Iterator[DatabaseOrder]:
    """The window's enriched orders, read FETCH_ROWS at a time; ids: only these of them."""
    query = sql.SQL("SELECT {columns} FROM ({view}) AS of_window WHERE {chosen}").format(
        columns=sql.SQL(", ").join(map(sql.Identifier, DatabaseOrder._fields)),
        view=rendered(VIEW_READ, window),
        chosen=sql.SQL("TRUE" if ids is None else "order_id = ANY(%(ids)s)"),
    )
    with closing(exported.connection.cursor("orders_of_window")) as cursor:
        cursor.itersize = FETCH_ROWS
        cursor.execute(query, None if ids is None else {"ids": list(ids)})
        for row in map(DatabaseOrder._make, cursor):
            yield row._replace(
                pizzas=json.loads(row.pizzas, parse_float=Decimal, parse_int=Decimal)
            )
