"""A workload with one invariant: pizzas move between two orders, and none is made or lost.

Every transaction leaves the number of pizzas of all these orders together as it was, so a version
of a stream's table that shows half a transaction, or one without an earlier one, has another.
"""

import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial

import psycopg
from lockstep.settings import Settings
from lockstep.sources.postgres import connect

from pizzeria.names import Login
from pizzeria.shop import operations as ops
from pizzeria.shop.executor import begun, transact
from pizzeria.shop.opening import open_shop
from pizzeria.shop.writers import OUTAGE_SECONDS_MAX, Writers

PIZZAS_EACH = 5  # enough that few orders are empty, few enough that some are


class Move(StrEnum):
    """How a transaction moves a pizza. An order that gives its last may be deleted by it, and one
    that was deleted is inserted again when it is given one."""

    PLAIN = "plain"
    TWICE = "both orders changed twice"
    SAVEPOINT_KEPT = "half of it in a savepoint"
    SAVEPOINT_UNDONE = "an order emptied, and rolled back to the savepoint before"
    ABORTED = "aborted"


# Of 10 transactions; the plain ones interleave most.
_WEIGHTS = {
    Move.PLAIN: 5,
    Move.TWICE: 2,
    Move.SAVEPOINT_KEPT: 1,
    Move.SAVEPOINT_UNDONE: 1,
    Move.ABORTED: 1,
}
_DELETED_WHEN_EMPTY = 0.3  # of the orders that gave their last pizza


@dataclass(frozen=True)
class Round:
    """The orders that share `pizzas` pizzas, at all times; all were taken at `order_time`."""

    order_ids: tuple[int, ...]
    pizzas: int
    assignment_id: int
    order_time: datetime


@dataclass
class MoveReport:
    """What was committed (or, for the kind `aborted`, rolled back as meant), by kind."""

    transactions: Counter[Move] = field(default_factory=Counter)
    collisions: int = 0


def open_round(settings: Settings, orders: int, seed: int) -> Round:
    """Insert the orders, PIZZAS_EACH in each, in one transaction, so that no version has a part."""
    rng = random.Random(seed)  # noqa: S311 - made-up orders, not a secret
    now = datetime.now(UTC)
    with connect(settings, Login.SHOP) as connection:
        shop = open_shop(connection)
        ids, menu = shop.ids, range(len(shop.pizza_ids))
        with begun(connection, ids) as work:
            work.apply(
                ops.AddClient(0, "The round"), ops.SitDown(0, client=0, table=0, in_time=now)
            )
            for number in range(orders):
                pizzas = tuple(rng.choices(menu, k=PIZZAS_EACH))
                work.apply(ops.AddOrder(number, assignment=0, pizzas=pizzas, order_time=now))
    order_ids = tuple(ids["order", number] for number in range(orders))
    return Round(order_ids, orders * PIZZAS_EACH, ids["assignment", 0], now)


class Movers(Writers):
    """Writers that move pizzas until they are stopped, through outages. Use as a context."""

    def __init__(
        self,
        settings: Settings,
        moved: Round,
        *,
        rate: float,
        seed: int,
        writers: int = 3,
        outage_seconds_max: float = OUTAGE_SECONDS_MAX,
    ) -> None:
        """rate: transactions a second of all writers together (open loop)."""
        super().__init__(outage_seconds_max)
        self.report = MoveReport()
        self._settings = settings
        self._moved = moved
        self._pause_seconds = writers / rate
        for number in range(writers):
            rng = random.Random(seed * 1000 + number)  # noqa: S311 - no secret
            self.add(partial(self._write, rng))

    def _write(self, rng: random.Random) -> Iterator[float]:
        with connect(self._settings, Login.SHOP) as connection:
            while True:
                due = time.monotonic() + rng.uniform(0, 2 * self._pause_seconds)
                self._move(connection, rng)
                yield due - time.monotonic()

    def _move(self, connection: psycopg.Connection, rng: random.Random) -> None:
        move = rng.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
        pair = sorted(rng.sample(self._moved.order_ids, 2))
        collisions = transact(
            connection,
            lambda: _steps(move, self._moved, _locked(connection, pair), rng),
            commits=move is not Move.ABORTED,
        )
        with self.changed:
            self.report.transactions[move] += 1
            self.report.collisions += collisions


Held = dict[int, tuple[int, ...] | None]
"""What orders hold, by id; a missing one holds None."""


def _locked(connection: psycopg.Connection, order_ids: list[int]) -> Held:
    """The orders, locked in id order until the transaction's end."""
    rows = connection.execute(
        "SELECT id, pizzas FROM orders WHERE id = ANY(%s) ORDER BY id FOR UPDATE", [order_ids]
    )
    return dict.fromkeys(order_ids) | {id_: tuple(pizzas) for id_, pizzas in rows}


def _steps(move: Move, moved: Round, held: Held, rng: random.Random) -> Iterator[ops.Step]:
    """One pizza, or two, from one of the two orders to the other; none when both are empty."""
    giver, taker = rng.sample(list(held), 2)
    if not held[giver]:
        giver, taker = taker, giver
    if not held[giver]:
        return
    if move is Move.SAVEPOINT_UNDONE:
        yield ops.Undone((ops.SetPizzas(giver, ()),))
    for _ in range(2 if move is Move.TWICE else 1):
        if held[giver]:
            given, taken = _given(giver, taker, moved, held, rng)
            yield ops.Kept((given,)) if move is Move.SAVEPOINT_KEPT else given
            yield taken


def _given(
    giver: int, taker: int, moved: Round, held: Held, rng: random.Random
) -> tuple[ops.Step, ops.Step]:
    """What one pizza's move does to each of the orders; `held` is as after it."""
    left = list(held[giver])
    pizza = left.pop(rng.randrange(len(left)))
    is_dissolved = not left and rng.random() < _DELETED_WHEN_EMPTY
    given = ops.DeleteOrder(giver) if is_dissolved else ops.SetPizzas(giver, tuple(left))
    more = (*(held[taker] or ()), pizza)
    taken = ops.SetPizzas(taker, more)
    if held[taker] is None:
        taken = ops.AddOrder(taker, moved.assignment_id, more, moved.order_time)
    held[giver], held[taker] = None if is_dissolved else tuple(left), more
    return given, taken
