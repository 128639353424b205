"""The vocabulary of the generator: what one transaction on the live shop consists of.

Plain values. Rows are named by the plan's own numbers (its first client is client 0, and so on);
executor.py gives them the database's ids. Pizzas and tables count on from those the shop already
had when the plan began.
"""

from dataclasses import dataclass
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


@dataclass(frozen=True)
class AddClient:
    client: int
    name: str


@dataclass(frozen=True)
class RenameClient:
    client: int
    name: str


@dataclass(frozen=True)
class AddPizza:
    pizza: int
    name: str
    price: Decimal


@dataclass(frozen=True)
class SetPrice:
    pizza: int
    price: Decimal


@dataclass(frozen=True)
class SitDown:
    assignment: int
    client: int
    table: int


@dataclass(frozen=True)
class Leave:
    assignment: int


@dataclass(frozen=True)
class AddOrder:
    order: int
    assignment: int
    pizzas: tuple[int, ...]


@dataclass(frozen=True)
class SetPizzas:
    order: int
    pizzas: tuple[int, ...]


@dataclass(frozen=True)
class MoveOrder:
    order: int
    assignment: int


@dataclass(frozen=True)
class DeleteOrder:
    order: int


@dataclass(frozen=True)
class Undone:
    """Steps between a savepoint and the rollback to it."""

    steps: tuple["Step", ...]


@dataclass(frozen=True)
class Hold:
    """Keep the transaction open, doing nothing."""

    seconds: float


Step = (
    AddClient
    | RenameClient
    | AddPizza
    | SetPrice
    | SitDown
    | Leave
    | AddOrder
    | SetPizzas
    | MoveOrder
    | DeleteOrder
    | Undone
    | Hold
)


@dataclass(frozen=True)
class Transaction:
    """Steps to apply together, `due_seconds` after the start.

    `needs` are the numbers of earlier transactions that must have ended first, because this one
    builds on their rows; others may run beside it. Orders touched are published at its end.
    """

    number: int
    kind: Kind
    due_seconds: float
    steps: tuple[Step, ...]
    needs: frozenset[int]

    @property
    def commits(self) -> bool:
        return self.kind is not Kind.ABORTED

    @property
    def placed_orders(self) -> int:
        """Orders that exist once it has committed and did not before."""
        return sum(isinstance(step, AddOrder) for step in self.steps) if self.commits else 0
