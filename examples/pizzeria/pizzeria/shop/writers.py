"""Threads that write to the shop: started, kept at it through outages, and stopped in one way.

What they write is the caller's (generator.py, moving_pizzas.py); how is executor.py's.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing

from lockstep.sources.errors import PostgresUnavailableError

from pizzeria.shop.executor import NEVER
from pizzeria.shop.operations import Transaction

RECONNECT_PAUSE_SECONDS = 0.2
OUTAGE_SECONDS_MAX = 120.0
"""Longer than a killed PostgreSQL takes to be back."""


def when_due(
    transactions: Iterable[Transaction], started: float, stop: threading.Event = NEVER
) -> Iterator[Transaction]:
    """Each transaction when its time has come, counted from `started` (time.monotonic()).

    Open loop: one that is asked for late comes at once. Ends early when `stop` is set.
    """
    for transaction in transactions:
        if stop.wait(max(0.0, started + transaction.due_seconds - time.monotonic())):
            return
        yield transaction


class Writers:
    """Threads that write until each has no more to write, one fails, or they are to stop.

    Use as a context: they are stopped at its end. `outages` is how often a writer lost the
    database; for so long as `outage_seconds_max` it then tries again.
    """

    def __init__(self, outage_seconds_max: float = 0.0) -> None:
        self.outages = 0
        self.stopping = threading.Event()
        self.changed = threading.Condition()
        """Guards what writers share; notified when they are to stop."""
        self._outage_seconds_max = outage_seconds_max
        self._failure: Exception | None = None
        self._threads: list[threading.Thread] = []

    def add(self, write: Callable[[], Iterator[float]]) -> None:
        """One writer more, before the start.

        `write` yields after each transaction: for how many seconds to pause. After an outage
        (PostgresUnavailableError) it is called again.
        """
        name = f"shop-writer-{len(self._threads)}"
        self._threads.append(threading.Thread(target=self._run, args=(write,), name=name))

    def __enter__(self) -> "Writers":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def await_all(self) -> None:
        """Until each has no more to write, or they are to stop."""
        for thread in self._threads:
            thread.join()

    def stop(self) -> None:
        """End after the transactions under way. Raises what ended a writer before its time."""
        self.halt()
        self.await_all()
        if self._failure:
            raise self._failure

    def halt(self) -> None:
        """Ask all to end."""
        self.stopping.set()
        with self.changed:
            self.changed.notify_all()

    def _run(self, write: Callable[[], Iterator[float]]) -> None:
        lost_at: float | None = None
        while not self.stopping.is_set():
            try:
                with closing(write()) as pauses:
                    for pause in pauses:
                        lost_at = None
                        if self.stopping.wait(max(0.0, pause)):
                            return
                return
            except PostgresUnavailableError as error:
                lost_at = self._outage(error, lost_at)
            except Exception as error:
                self._fail(error)

    def _outage(self, error: PostgresUnavailableError, lost_at: float | None) -> float:
        """Since when the database is away; a failure when that is too long."""
        now = time.monotonic()
        if lost_at is None:
            lost_at = now
            with self.changed:
                self.outages += 1
        if now - lost_at >= self._outage_seconds_max:
            self._fail(error)
        self.stopping.wait(RECONNECT_PAUSE_SECONDS)
        return lost_at

    def _fail(self, error: Exception) -> None:
        """Raised again by stop(), in the caller's thread; the first one says most."""
        self._failure = self._failure or error
        self.halt()
