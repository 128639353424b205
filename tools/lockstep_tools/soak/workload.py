"""The shop at work while its services are killed: pizzas that move, and the generator's mix."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import count

from lockstep.settings import Settings
from lockstep.sources.errors import PostgresUnavailableError
from pizzeria.shop.generator import generate
from pizzeria.shop.moving_pizzas import Movers, Round

EVENING_SECONDS = 10.0
"""Short evenings, one after the other: an outage ends the one under way."""
PAUSE_SECONDS = 0.5
"""Between two evenings."""


@dataclass
class Rates:
    """Transactions that move pizzas, and orders placed by the generator, a second."""

    moves: float = 20.0
    orders: float = 10.0


class Workload(Movers):
    """Both workloads, from entering the context to leaving it, through outages of the database.

    Leaving it raises what ended one before its time.
    """

    def __init__(self, settings: Settings, moved: Round, seed: int, rates: Rates) -> None:
        super().__init__(settings, moved, rate=rates.moves, seed=seed)
        self._evenings = (settings, rates.orders, seed * 1000)
        if rates.orders:
            self.add(self._evening_after_evening)

    def go_on_for(self, seconds: float) -> None:
        """Let it work; less long when it fails."""
        self.stopping.wait(seconds)

    def _evening_after_evening(self) -> Iterator[float]:
        settings, rate, first_seed = self._evenings
        for seed in count(first_seed + 1):
            with suppress(PostgresUnavailableError):
                generate(settings, rate=rate, seconds=EVENING_SECONDS, seed=seed, writers=2)
            yield PAUSE_SECONDS
