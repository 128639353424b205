"""Opens the shop: a menu and tables, if the database has none yet."""

from dataclasses import dataclass

import psycopg

from pizzeria.shop.house import MENU, TABLES


@dataclass(frozen=True)
class Shop:
    """Ids of the menu and of the tables by number, from the smallest."""

    pizza_ids: tuple[int, ...]
    table_ids: tuple[int, ...]


def open_shop(connection: psycopg.Connection) -> Shop:
    """Read the menu and the tables; where there is none, put up the house's own first.

    One transaction; two processes that open at once agree.
    """
    with connection.transaction(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext('lockstep open shop'))")
        pizza_ids = _ids(connection, "SELECT id FROM pizzas ORDER BY id")
        if not pizza_ids:
            cursor.executemany("INSERT INTO pizzas (name, price) VALUES (%s, %s)", MENU)
            pizza_ids = _ids(connection, "SELECT id FROM pizzas ORDER BY id")
        table_ids = _ids(connection, "SELECT id FROM tables ORDER BY id")
        if not table_ids:
            cursor.executemany(
                "INSERT INTO tables (name) VALUES (%s)", [(name,) for name in TABLES]
            )
            table_ids = _ids(connection, "SELECT id FROM tables ORDER BY id")
    return Shop(pizza_ids, table_ids)


def _ids(connection: psycopg.Connection, query: str) -> tuple[int, ...]:
    return tuple(id_ for (id_,) in connection.execute(query))
