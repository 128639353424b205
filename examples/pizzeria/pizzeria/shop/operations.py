"""The vocabulary of all that writes to the shop: what one transaction on it consists of.

Plain values; executor.py turns them into SQL. Rows are named by numbers: a plan's own (its first
client is client 0, its pizzas and tables count on from those the shop already had), or the
database's ids.
"""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum


class Kind(StrEnum):
    """What a transaction is about; plan.py gives each its share."""

    SIT_AND_ORDER = "sit down and order"
    SIT_DOWN = "sit down"
    ORDER = "order"
    LEAVE = "leave"
    CHANGE_ORDER = "change an order"
    CANCEL_ORDER = "cancel an order"
    MOVE_ORDER = "move an order to another table"
    SWAP_PIZZAS = "move a pizza between two orders"
    TWO_ORDERS = "two orders at once"
    RENAME_CLIENT = "rename a client"
    CHANGE_PRICE = "change a price"
    NEW_PIZZA = "new pizza and an order of it"
    SPECIAL_PRICE = "change a price and order at it"
    SAVEPOINT = "order with a savepoint rolled back"
    ABORTED = "aborted"
    LONG = "long"


class Step:
    """Something that happens within a transaction."""


@dataclass(frozen=True)
class AddClient(Step):
    client: int
    name: str


@dataclass(frozen=True)
class RenameClient(Step):
    client: int
    name: str


@dataclass(frozen=True)
class DeleteClient(Step):
    client: int


@dataclass(frozen=True)
class AddTable(Step):
    table: int
    name: str


@dataclass(frozen=True)
class AddPizza(Step):
    pizza: int
    name: str
    price: Decimal


@dataclass(frozen=True)
class CopyPizzas(Step):
    """Pizzas of these names, all by one COPY."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class SetPrice(Step):
    pizza: int
    price: Decimal


@dataclass(frozen=True)
class SitDown(Step):
    """in_time: when the transaction began, if it is None."""

    assignment: int
    client: int
    table: int
    in_time: datetime | None = None
    out_time: datetime | None = None


@dataclass(frozen=True)
class Leave(Step):
    assignment: int


@dataclass(frozen=True)
class AddOrder(Step):
    """order_time: when the transaction began, if it is None."""

    order: int
    assignment: int
    pizzas: tuple[int, ...]
    order_time: datetime | None = None


@dataclass(frozen=True)
class SetPizzas(Step):
    order: int
    pizzas: tuple[int, ...]


@dataclass(frozen=True)
class MoveOrder(Step):
    order: int
    assignment: int


@dataclass(frozen=True)
class DeleteOrder(Step):
    order: int


@dataclass(frozen=True)
class SendMessage(Step):
    """A transactional logical message."""

    prefix: str
    content: str


@dataclass(frozen=True)
class Kept(Step):
    """Steps in a savepoint that is released."""

    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Undone(Step):
    """Steps between a savepoint and the rollback to it, which undoes their publishing, too."""

    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Hold(Step):
    """Keep the transaction open, doing nothing."""

    seconds: float


@dataclass(frozen=True)
class Transaction:
    """Steps to apply together, `due_seconds` after the start.

    `needs` are the numbers of earlier transactions that must have ended first, because this one
    builds on their rows; others may run at the same time. Orders touched are published at its end.
    """

    number: int
    kind: Kind
    due_seconds: float
    steps: tuple[Step, ...]
    needs: frozenset[int] = frozenset()

    @property
    def commits(self) -> bool:
        return self.kind is not Kind.ABORTED

    @property
    def placed_orders(self) -> int:
        """Orders that exist once it has committed and did not before."""
        return sum(isinstance(step, AddOrder) for step in self.steps) if self.commits else 0
