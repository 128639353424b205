"""Runs an evening in the shop: planned transactions, on time, by several writers at once.

Open loop: a slow database makes transactions late, never fewer. Long transactions have a writer of
their own, so that they stay open across everybody else's.
"""

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from lockstep.contracts import Role
from lockstep.errors import PostgresUnavailableError
from lockstep.settings import Settings
from lockstep.sources.postgres import connect

from pizzeria.shop.executor import Ids, execute
from pizzeria.shop.opening import open_shop
from pizzeria.shop.operations import Kind, Transaction
from pizzeria.shop.plan import plan

# How long a transaction waits for the ones it builds on: longer than a long one is held, and than
# any wait that a healthy database makes a writer wait.
NEEDS_SECONDS_MAX = 120.0


@dataclass
class GenerateReport:
    """What has been committed (or, for the kind `aborted`, rolled back as planned)."""

    transactions: Counter[Kind] = field(default_factory=Counter)
    placed_orders: int = 0
    collisions: int = 0
    seconds: float = 0.0
    late_seconds_max: float = 0.0


def generate(
    settings: Settings,
    *,
    rate: float,
    seconds: float,
    seed: int,
    writers: int = 4,
    on_progress: Callable[[int], None] = lambda _orders: None,
) -> GenerateReport:
    """Apply plan(seed, rate, seconds) to the live database with `writers` connections and one.

    `rate` is orders a second; floor(rate * seconds) are placed, and the other kinds come between
    them. Deadlocks and serialization failures are retried and counted. `on_progress` gets numbers
    of orders placed, from the writers' threads.

    Raises PostgresUnavailableError when a connection is lost; what was open is then rolled back.
    """
    with connect(settings, Role.SHOP) as connection:
        shop = open_shop(connection)
    planned = plan(
        seed=seed,
        rate=rate,
        seconds=seconds,
        menu_size=len(shop.pizza_ids),
        table_count=len(shop.table_ids),
    )
    return _Evening(settings, shop.ids, on_progress).run(planned, writers)


class _Evening:
    """The writers' common state: whom they wait for, what they did, and whether to stop."""

    def __init__(self, settings: Settings, ids: Ids, on_progress: Callable[[int], None]) -> None:
        self._settings = settings
        self._ids = ids
        self._on_progress = on_progress
        self._stop = threading.Event()
        self._changed = threading.Condition()
        self._under_way: set[int] = set()
        self._failure: Exception | None = None
        self._report = GenerateReport()
        self._started = time.monotonic()

    def run(self, planned: Iterable[Transaction], writers: int) -> GenerateReport:
        short: queue.SimpleQueue = queue.SimpleQueue()
        long: queue.SimpleQueue = queue.SimpleQueue()
        threads = [
            threading.Thread(target=self._write, args=(waiting,), name=f"shop-writer-{number}")
            for number, waiting in enumerate([long, *[short] * writers])
        ]
        for thread in threads:
            thread.start()
        try:
            self._dispatch(planned, short, long)
        except BaseException:
            self._stop.set()
            raise
        finally:
            for waiting in (long, *[short] * writers):
                waiting.put(None)
            for thread in threads:
                thread.join()
        if self._failure:
            raise self._failure
        self._report.seconds = time.monotonic() - self._started
        return self._report

    def _dispatch(
        self,
        planned: Iterable[Transaction],
        short: queue.SimpleQueue,
        long: queue.SimpleQueue,
    ) -> None:
        """Hand each transaction to the writers when it is due."""
        for transaction in planned:
            due_in = self._started + transaction.due_seconds - time.monotonic()
            if self._stop.wait(max(0.0, due_in)):
                return
            with self._changed:
                self._under_way.add(transaction.number)
            (long if transaction.kind is Kind.LONG else short).put(transaction)

    def _write(self, waiting: queue.SimpleQueue) -> None:
        """One writer's thread: its own connection, transaction after transaction."""
        try:
            with connect(self._settings, Role.SHOP) as connection:
                while (transaction := waiting.get()) is not None and not self._stop.is_set():
                    self._wait_for(transaction)
                    if self._stop.is_set():
                        return
                    late = time.monotonic() - self._started - transaction.due_seconds
                    collisions = execute(connection, transaction, self._ids, self._stop)
                    self._note(transaction, collisions, late)
        except Exception as error:
            # Raised again by run(), in the caller's thread; the first one tells most.
            self._failure = self._failure or error
            self._stop.set()
            with self._changed:
                self._changed.notify_all()

    def _wait_for(self, transaction: Transaction) -> None:
        """Until all that the transaction needs has ended. Needs are always earlier ones, and the
        earliest under way has none, so writers never wait for each other in a circle."""
        with self._changed:
            in_time = self._changed.wait_for(
                lambda: self._stop.is_set() or not transaction.needs & self._under_way,
                timeout=NEEDS_SECONDS_MAX,
            )
        if not in_time:
            raise PostgresUnavailableError(
                f"transaction {transaction.number} ({transaction.kind}) waited "
                f"{NEEDS_SECONDS_MAX:.0f} s for an earlier one: something holds a lock in the "
                "database; look for it in pg_stat_activity, end it, and run the command again"
            )

    def _note(self, transaction: Transaction, collisions: int, late: float) -> None:
        with self._changed:
            self._under_way.discard(transaction.number)
            self._report.transactions[transaction.kind] += 1
            self._report.placed_orders += transaction.placed_orders
            self._report.collisions += collisions
            self._report.late_seconds_max = max(self._report.late_seconds_max, late)
            self._changed.notify_all()
        self._on_progress(transaction.placed_orders)
