"""A seeded history of a small pizzeria, written to the database by SQL alone.

Nothing of the product takes part, and the same seed gives the same transactions in the same order,
whatever the product's code is. LSNs, transaction ids and times of commit alone differ
between two runs.
"""

import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import psycopg

HOUR = timedelta(hours=1)
HOURS_BEGIN = datetime(2099, 1, 1, 8, tzinfo=UTC)
"""Orders of the first hour are there before the capture, those of the second and third come later.

In the future, so that the last of these hours is also the last that is due.
"""
ORDERS_BEFORE, GROUPS, TRANSACTIONS_OF_GROUP = 30, 6, 25
DIMENSIONS = {"clients": 20, "tables": 6, "pizzas": 12}
SEATINGS, UNKNOWN_PIZZA = 15, 999


@dataclass
class Story:
    """One writer's transactions over a connection that may do everything.

    published: rows that each change log must have so far, one for an order and transaction.
    """

    connection: psycopg.Connection
    rng: random.Random
    published: int = 0

    def before_the_capture(self) -> None:
        """The dimensions, and the orders of the first hour."""
        with self.connection.transaction():
            for table, rows in DIMENSIONS.items():
                for _ in range(rows):
                    self._add_to(table)
            for _ in range(SEATINGS):
                self._sit_down()
        for _ in range(ORDERS_BEFORE):
            with self.connection.transaction():
                self._order(hour=0)

    def group_of_orders(self) -> None:
        """Transactions of orders, of which none is changed by two: a look-up may come late."""
        touched: set[int] = set()
        for _ in range(TRANSACTIONS_OF_GROUP):
            with self.connection.transaction():
                for _ in range(self.rng.randrange(1, 4)):
                    self._change_order(touched)

    def change_of_dimensions(self) -> None:
        """New names and prices, other clients of seatings, new seatings, and one pizza more."""
        for _ in range(4):
            with self.connection.transaction():
                for table in self.rng.sample(list(DIMENSIONS), 2):
                    id_ = self._any_of(table)
                    self._do(f"UPDATE {table} SET name = %s WHERE id = %s", self._name(), id_)
                pizza, price = self._any_of("pizzas"), self.rng.randrange(500, 3000) / 100
                self._do("UPDATE pizzas SET price = %s WHERE id = %s", price, pizza)
                client, seating = self._any_of("clients"), self._any_of("table_assignment")
                self._do(
                    "UPDATE table_assignment SET client_id = %s WHERE id = %s", client, seating
                )
                self._sit_down()
        with self.connection.transaction():
            self._add_to("pizzas")

    def a_pizza_goes(self) -> None:
        """Orders keep its id."""
        with self.connection.transaction():
            self._do("DELETE FROM pizzas WHERE id = %s", self._any_of("pizzas"))

    # --- what a transaction does -------------------------------------------------------------

    def _change_order(self, touched: set[int]) -> None:
        known = [id_ for id_ in self._ids_of("orders") if id_ not in touched]
        kind = self.rng.choice("cccuud")
        if kind == "c" or not known:
            touched.add(self._order(hour=self.rng.randrange(1, 3)))
            return
        id_ = self.rng.choice(known)
        touched.add(id_)
        if kind == "u":
            set_ = "table_assignment_id = %s, pizzas = %s"
            seating = self._any_of("table_assignment")
            self._do(f"UPDATE orders SET {set_} WHERE id = %s", seating, self._pizzas(), id_)
        else:
            self._do("DELETE FROM orders WHERE id = %s", id_)
        self._publish(id_, kind)

    def _order(self, hour: int) -> int:
        at = HOURS_BEGIN + hour * HOUR + timedelta(microseconds=self.rng.randrange(3_600_000_000))
        seating = self._any_of("table_assignment")
        values = (seating, at, self._pizzas())
        columns = "table_assignment_id, order_time, pizzas"
        id_ = self._do(f"INSERT INTO orders ({columns}) VALUES (%s, %s, %s) RETURNING id", *values)
        if hour:
            self._publish(id_, "c")
        return id_

    def _publish(self, order_id: int, op: str) -> None:
        self.connection.execute("SELECT publish_order(%s, %s)", [order_id, op])
        self.published += 1

    def _sit_down(self) -> None:
        client, table = self._any_of("clients"), self._any_of("tables")
        columns = "client_id, table_id, in_time"
        self._do(
            f"INSERT INTO table_assignment ({columns}) VALUES (%s, %s, %s) RETURNING id",
            client,
            table,
            HOURS_BEGIN,
        )

    def _add_to(self, table: str) -> None:
        if table == "pizzas":
            price = self.rng.randrange(500, 3000) / 100
            self._do("INSERT INTO pizzas (name, price) VALUES (%s, %s)", self._name(), price)
        else:
            self._do(f"INSERT INTO {table} (name) VALUES (%s)", self._name())

    def _pizzas(self) -> list[int]:
        """Up to four, of which one in fifty is on no menu."""
        known = self._ids_of("pizzas")
        chosen = [self.rng.choice(known) for _ in range(self.rng.randrange(5))]
        return [id_ if self.rng.random() < 49 / 50 else UNKNOWN_PIZZA for id_ in chosen]

    def _name(self) -> str:
        return f"name {self.rng.randrange(10**6)} é"

    def _any_of(self, table: str) -> int:
        return self.rng.choice(self._ids_of(table))

    def _ids_of(self, table: str) -> list[int]:
        found = self.connection.execute(f"SELECT id FROM {table} ORDER BY id")
        return [id_ for (id_,) in found]

    def _do(self, statement: str, *values: object) -> int | None:
        done = self.connection.execute(statement, values)
        return done.fetchone()[0] if done.description else None
