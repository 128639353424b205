"""What makes an hourly run and a stream differ, done on purpose, in the application's own way.

A price that changes between an order's commit and the hourly run, and an order whose transaction is
open while the hourly run reads.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from lockstep.settings import Settings
from lockstep.sources.postgres import connect

from pizzeria.names import Login
from pizzeria.shop.backdate import orders_at
from pizzeria.shop.executor import Work, begun
from pizzeria.shop.operations import SetPrice


@dataclass(frozen=True)
class PriceChange:
    """A pizza of the menu has cost `before`, and costs `after` from this commit on."""

    pizza: str
    before: Decimal
    after: Decimal


def raise_price(settings: Settings, by: Decimal) -> PriceChange:
    """Raise the price of the menu's first pizza, in a transaction of its own.

    The menu must be there (opening.py). Raises PostgresUnavailableError.
    """
    with connect(settings, Login.SHOP) as connection, begun(connection) as work:
        id_, pizza, before = connection.execute(
            "SELECT id, name, price FROM pizzas ORDER BY id LIMIT 1 FOR UPDATE"
        ).fetchone()
        work.apply(SetPrice(id_, before + by))
    return PriceChange(pizza, before, before + by)


@dataclass
class OpenOrder:
    """An order that no one else sees until `commit`."""

    order_id: int
    _work: Work
    is_committed: bool = False

    def commit(self) -> None:
        """Let it be seen; committing again does nothing."""
        if not self.is_committed:
            self._work.end()
            self.is_committed = True


@contextmanager
def open_order(settings: Settings, order_time: datetime, seed: int) -> Iterator[OpenOrder]:
    """Place one order in a transaction that stays open; without `commit` it is as if never placed.

    No one can change what it refers to (publish_order locks it) until then. Raises
    PostgresUnavailableError.
    """
    with connect(settings, Login.SHOP) as connection:
        [transaction], ids = orders_at(connection, [order_time], seed)
        work = Work(connection, ids)
        work.apply(*transaction.steps)
        work.publish()
        yield OpenOrder(ids["order", transaction.number], work)
