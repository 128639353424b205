"""Fills an empty database with a great many orders at once, for benchmarks of the hourly run.

Set-based, with no outbox rows and no messages: nothing a stream could follow. So it alone has
statements of its own (fill.sql); all else that writes orders goes through executor.py, which would
take minutes for a million of them. Use it only on a database of its own.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
from lockstep.settings import Settings
from lockstep.sources.postgres import connect
from psycopg.sql import SQL, Identifier

from pizzeria.errors import InputDataError
from pizzeria.names import DATABASE, ENRICHMENT_TABLES, Login

FILL_SQL = Path(__file__).with_name("fill.sql")
START = datetime(2024, 1, 1, tzinfo=UTC)  # any day does; benchmarks agree on one
MENU_SIZE, TABLE_COUNT = 96, 40  # as in the pizza-place data set, and a large room
ORDERS_PER_CLIENT, ORDERS_PER_ASSIGNMENT = 2.5, 1.5
ORDERS_MAX = 100_000_000  # ids of assignments and clients are computed as integers


def fill(
    settings: Settings,
    orders: int,
    hours: int = 24,
    seed: int = 1,
    *,
    clients: int | None = None,
) -> None:
    """Make `orders` orders spread evenly over `hours` from START, then VACUUM ANALYZE.

    With them so many clients (or one for each 2.5), an assignment for each 1.5, 40 tables and 96
    pizzas. The same arguments make the same rows; they come in one transaction, or not at all.
    Works as the database's owner.
    Raises InputDataError when a table is not empty or the numbers make no sense, and
    PostgresUnavailableError.
    """
    if not 1 <= orders <= ORDERS_MAX or hours < 1:
        raise InputDataError(
            f"cannot fill {orders} orders into {hours} hours; give 1 to {ORDERS_MAX} orders "
            "and one hour or more"
        )
    with connect(settings, Login.OWNER) as connection:
        _require_empty(connection)
        with connection.transaction():
            # Bound on the client, for the file holds several statements.
            psycopg.ClientCursor(connection).execute(
                FILL_SQL.read_text(encoding="utf-8"),
                {
                    "orders": orders,
                    "clients": clients or max(1, round(orders / ORDERS_PER_CLIENT)),
                    "assignments": max(1, round(orders / ORDERS_PER_ASSIGNMENT)),
                    "pizzas": MENU_SIZE,
                    "tables": TABLE_COUNT,
                    "first_hour": START,
                    "span": timedelta(hours=hours),
                    "seed": seed,
                },
            )
        for table in ENRICHMENT_TABLES:
            connection.execute(SQL("VACUUM (ANALYZE) {}").format(Identifier(table)))


def _require_empty(connection: psycopg.Connection) -> None:
    for table in ENRICHMENT_TABLES:
        query = SQL("SELECT EXISTS (SELECT FROM {})").format(Identifier(table))
        if connection.execute(query).fetchone()[0]:
            raise InputDataError(
                f"table {table} of database {DATABASE} holds rows already; "
                "fill a fresh database, for a benchmark's rows belong nowhere else"
            )
