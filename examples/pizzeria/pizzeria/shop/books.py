"""The planned shop's books: which rows there will be if everything planned so far commits.

Pure bookkeeping for plan.py and evening.py: no clock, no database.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from pizzeria.shop.names import FIRST_NAMES, LAST_NAMES

MAX_PIZZAS = 6  # of an order
REPEATS = 0.25  # of an order's further pizzas: one that is in it already
RECENT = 200  # orders that may still change, clients who may come again, new pizzas on offer
PRICE_QUARTERS = (32, 120)  # 8.00 to 30.00, in quarters


@dataclass(eq=False)
class Row:
    """A row later transactions may build on: who made it, and from when it is there.

    An order also knows its pizzas and who touched it, a party whether it has ordered.
    """

    number: int
    made_by: int
    usable_from: float = 0.0
    touched_by: set[int] = field(default_factory=set)
    pizzas: tuple[int, ...] = ()
    has_ordered: bool = False


class Books:
    """Clients, parties, orders and the menu, and what the transaction being planned builds on."""

    def __init__(self, rng: random.Random, menu_size: int, table_count: int) -> None:
        self.rng = rng
        self.menu = [Row(number, made_by=-1) for number in range(menu_size)]
        self._menu_size = menu_size
        self.clients: list[Row] = []
        self.parties: list[Row] = []
        self.orders: list[Row] = []
        self.transaction = -1
        self.due = 0.0
        self.needs: set[int] = set()
        self.long_until = 0.0
        self.new_pizza_from = 0.0
        self._table_count = table_count
        self._next = {"client": 0, "party": 0, "order": 0, "pizza": menu_size}

    def open_transaction(self, due: float) -> None:
        self.transaction += 1
        self.due = due
        self.needs = set()

    def usable(self, rows: Sequence[Row]) -> list[Row]:
        return [row for row in rows if row.usable_from <= self.due]

    def pick(self, rows: Sequence[Row]) -> Row:
        """Any of the rows that are there by now; the transaction then builds on it."""
        return self._any(self.usable(rows))

    def _any(self, usable: Sequence[Row]) -> Row:
        return self.build_on(self.rng.choice(usable))

    def build_on(self, row: Row) -> Row:
        if row.made_by >= 0:
            self.needs.add(row.made_by)
        return row

    def change(self, order: Row) -> Row:
        """Build on an order, and remember who changed it."""
        order.touched_by.add(self.transaction)
        return self.build_on(order)

    def new_row(self, kind: str) -> Row:
        """A number for a row that this transaction makes; no other transaction sees it yet."""
        number = self._next[kind]
        self._next[kind] += 1
        return Row(number, made_by=self.transaction)

    def new_client(self) -> Row:
        client = self.new_row("client")
        self.clients = [*self.clients[-RECENT:], client]
        return client

    def new_party(self) -> Row:
        party = self.new_row("party")
        self.parties.append(party)
        return party

    def new_order(self, party: Row, pizzas: tuple[int, ...]) -> Row:
        order = self.new_row("order")
        order.pizzas = pizzas[:MAX_PIZZAS]
        order.touched_by.add(self.transaction)
        party.has_ordered = True
        self.orders = [*self.orders[-RECENT:], order]
        return order

    def put_on_menu(self, pizza: Row) -> None:
        """What is new goes again when enough has come after it; the first menu stays."""
        regular, new = self.menu[: self._menu_size], self.menu[self._menu_size :]
        self.menu = [*regular, *new[-RECENT:], pizza]

    def pizzas(self) -> tuple[int, ...]:
        """One to six of the menu; people order alike, so repeats are likelier than chance."""
        menu = self.usable(self.menu)
        picked: list[int] = []
        for _ in range(self.rng.randint(1, MAX_PIZZAS)):
            repeat = picked and self.rng.random() < REPEATS
            picked.append(self.rng.choice(picked) if repeat else self._any(menu).number)
        return tuple(picked)

    def table(self) -> int:
        return self.rng.randrange(self._table_count)

    def name(self) -> str:
        return f"{self.rng.choice(FIRST_NAMES)} {self.rng.choice(LAST_NAMES)}"

    def price(self) -> Decimal:
        return Decimal(self.rng.randint(*PRICE_QUARTERS)) / 4
