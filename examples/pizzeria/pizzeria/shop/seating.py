"""Makes up who sat where: clients, tables and assignments for orders that came without them.

A pure function of the orders, so that loading the same files again finds the same rows. It knows
no database; ids are numbered from 1.
"""

import random
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from pizzeria.shop.names import FIRST_NAMES, LAST_NAMES
from pizzeria.shop.pizza_place import PlacedOrder

SEED = 2015  # of the made-up part; changing it makes earlier loads differ from later ones
JOINS_SEATING = 0.2  # of orders: someone already seated orders again
TABLES_MAX = 60  # parties at once; in a fuller hour those seated order more
RETURNING = 0.4  # of new seatings: a client who was here before
LAST_CALL = timedelta(minutes=10)  # no party orders again this close to leaving
WAIT_MINUTES = (2, 12)  # from sitting down to the first order
STAY_MINUTES = (30, 75)  # from the first order to leaving


@dataclass(frozen=True)
class Client:
    """A row of `clients`."""

    id: int
    name: str


@dataclass(frozen=True)
class DiningTable:
    """A row of `tables`."""

    id: int
    name: str


@dataclass(frozen=True)
class Assignment:
    """A row of `table_assignment`: one party at one table, from in_time to out_time."""

    id: int
    client: Client
    table: DiningTable
    in_time: datetime
    out_time: datetime


@dataclass(frozen=True)
class SeatedOrder:
    """An order and the assignment it belongs to."""

    order: PlacedOrder
    assignment: Assignment


def seat_orders(orders: Iterable[PlacedOrder], seed: int = SEED) -> list[SeatedOrder]:
    """Give each order, sorted by time, a client at a table; one list entry an order.

    No table holds two parties at once, in_time <= order_time <= out_time, and the same orders
    and seed always give the same answer.
    """
    room = _DiningRoom(random.Random(seed))  # noqa: S311 - made-up data, not a secret
    return [room.seat(order) for order in orders]


class _DiningRoom:
    """Who is or just was seated, and who has ever been; walked forward order by order."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._recent: list[Assignment] = []
        self._clients: list[Client] = []
        self._table_count = 0
        self._assignment_count = 0

    def seat(self, order: PlacedOrder) -> SeatedOrder:
        now = order.order_time
        earliest_in_time = now - timedelta(minutes=WAIT_MINUTES[1])
        self._recent = [seating for seating in self._recent if seating.out_time > earliest_in_time]
        staying = [seating for seating in self._recent if seating.out_time - now >= LAST_CALL]
        full = len(self._recent) >= TABLES_MAX
        if staying and (full or self._rng.random() < JOINS_SEATING):
            return SeatedOrder(order, self._rng.choice(staying))
        return SeatedOrder(order, self._new_seating(now))

    def _new_seating(self, now: datetime) -> Assignment:
        self._assignment_count += 1
        in_time = now - timedelta(minutes=self._rng.randint(*WAIT_MINUTES))
        present = [seating for seating in self._recent if seating.out_time > in_time]
        seating = Assignment(
            id=self._assignment_count,
            client=self._client({other.client.id for other in present}),
            table=self._free_table({other.table.id for other in present}),
            in_time=in_time,
            out_time=now + timedelta(minutes=self._rng.randint(*STAY_MINUTES)),
        )
        self._recent.append(seating)
        return seating

    def _client(self, present: set[int]) -> Client:
        if self._clients and self._rng.random() < RETURNING:
            regular = self._rng.choice(self._clients)
            if regular.id not in present:
                return regular
        name = f"{self._rng.choice(FIRST_NAMES)} {self._rng.choice(LAST_NAMES)}"
        self._clients.append(Client(len(self._clients) + 1, name))
        return self._clients[-1]

    def _free_table(self, taken: set[int]) -> DiningTable:
        """The lowest free table; the room grows when all are taken."""
        number = next(n for n in range(1, self._table_count + 2) if n not in taken)
        self._table_count = max(self._table_count, number)
        return DiningTable(number, f"Table {number}")
