"""Opens the shop: a menu and tables, if the database has none yet."""

from dataclasses import dataclass

import psycopg

from pizzeria.shop.executor import Ids, begun
from pizzeria.shop.house import MENU, TABLES
from pizzeria.shop.operations import AddPizza, AddTable


@dataclass(frozen=True)
class Shop:
    """Ids of the menu and of the tables by number, from the smallest."""

    pizza_ids: tuple[int, ...]
    table_ids: tuple[int, ...]

    @property
    def ids(self) -> Ids:
        """The numbers a plan begins with: the menu and the tables as they were."""
        pizzas = {("pizza", number): id_ for number, id_ in enumerate(self.pizza_ids)}
        return pizzas | {("table", number): id_ for number, id_ in enumerate(self.table_ids)}


def open_shop(connection: psycopg.Connection) -> Shop:
    """Read the menu and the tables; where there is none, put up the house's own first.

    One transaction; two processes that open at once agree.
    """
    with begun(connection, {}) as work:
        connection.execute("SELECT pg_advisory_xact_lock(hashtext('lockstep open shop'))")
        if not _ids(connection, "SELECT id FROM pizzas LIMIT 1"):
            work.apply(*(AddPizza(number, *pizza) for number, pizza in enumerate(MENU)))
        if not _ids(connection, "SELECT id FROM tables LIMIT 1"):
            work.apply(*(AddTable(number, name) for number, name in enumerate(TABLES)))
        return Shop(
            _ids(connection, "SELECT id FROM pizzas ORDER BY id"),
            _ids(connection, "SELECT id FROM tables ORDER BY id"),
        )


def _ids(connection: psycopg.Connection, query: str) -> tuple[int, ...]:
    return tuple(id_ for (id_,) in connection.execute(query))
