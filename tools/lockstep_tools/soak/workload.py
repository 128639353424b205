"""The shop at work while its services are killed: pizzas that move, and the generator's mix."""

import threading
from dataclasses import dataclass, field

from lockstep.errors import PostgresUnavailableError
from lockstep.settings import Settings
from pizzeria.shop.generator import generate
from pizzeria.shop.moving_pizzas import Movers, Round

EVENING_SECONDS = 10.0
"""Short evenings, one after the other: an outage ends the one under way."""
RETRY_SECONDS = 0.5


@dataclass
class Rates:
    """Transactions that move pizzas, and orders placed by the generator, a second."""

    moves: float = 20.0
    orders: float = 10.0


@dataclass
class Workload:
    """Both workloads, from entering the context to leaving it, through outages of the database."""

    settings: Settings
    moved: Round
    seed: int
    rates: Rates = field(default_factory=Rates)
    _done: threading.Event = field(default_factory=threading.Event)
    _failure: Exception | None = None

    def __enter__(self) -> "Workload":
        self._movers = Movers(self.settings, self.moved, rate=self.rates.moves, seed=self.seed)
        self._evenings = threading.Thread(target=self._evening_after_evening, name="evenings")
        self._movers.__enter__()
        self._evenings.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End both after what is under way. Raises what ended one before its time."""
        self._done.set()
        self._evenings.join()
        self._movers.stop()
        if self._failure:
            raise self._failure

    def go_on_for(self, seconds: float) -> None:
        """Let it work; less long when it fails, which leaving the context raises."""
        self._done.wait(seconds)

    def _evening_after_evening(self) -> None:
        seed = self.seed * 1000
        while self.rates.orders and not self._done.is_set():
            seed += 1
            try:
                generate(
                    self.settings,
                    rate=self.rates.orders,
                    seconds=EVENING_SECONDS,
                    seed=seed,
                    writers=2,
                )
            except PostgresUnavailableError:
                self._done.wait(RETRY_SECONDS)
            except Exception as error:  # raised again by __exit__, in the caller's thread
                self._failure = error
                self._done.set()
