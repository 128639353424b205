"""Runs an evening in the shop: planned transactions, on time, by several writers at once.

Open loop: a slow database makes transactions late, never fewer. There is a writer more than asked
for, since a long transaction keeps one busy while it stays open across all the others.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from lockstep.settings import Settings
from lockstep.sources.errors import PostgresUnavailableError
from lockstep.sources.postgres import connect

from pizzeria.names import Login
from pizzeria.shop.executor import Ids, execute
from pizzeria.shop.opening import open_shop
from pizzeria.shop.operations import Kind, Transaction
from pizzeria.shop.plan import plan
from pizzeria.shop.writers import Writers, when_due

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
    with connect(settings, Login.SHOP) as connection:
        shop = open_shop(connection)
    planned = plan(
        seed=seed,
        rate=rate,
        seconds=seconds,
        menu_size=len(shop.pizza_ids),
        table_count=len(shop.table_ids),
    )
    return _Evening(settings, planned, shop.ids, on_progress, writers + 1).run()


class _Evening(Writers):
    """The writers of one plan, whom they wait for, and what they did."""

    def __init__(
        self,
        settings: Settings,
        planned: Iterable[Transaction],
        ids: Ids,
        on_progress: Callable[[int], None],
        writers: int,
    ) -> None:
        super().__init__()
        self._settings = settings
        self._ids = ids
        self._on_progress = on_progress
        self._report = GenerateReport()
        self._under_way: set[int] = set()
        self._taking = threading.Lock()
        self._started = time.monotonic()
        self._due = when_due(planned, self._started, self.stopping)
        for _ in range(writers):
            self.add(self._write)

    def run(self) -> GenerateReport:
        with self:
            self.await_all()
        self._report.seconds = time.monotonic() - self._started
        return self._report

    def _write(self) -> Iterator[float]:
        """One writer: transaction after transaction, as long as there are any."""
        with connect(self._settings, Login.SHOP) as connection:
            while (transaction := self._next()) is not None:
                self._wait_for(transaction)
                if self.stopping.is_set():
                    return
                late = time.monotonic() - self._started - transaction.due_seconds
                collisions = execute(connection, transaction, self._ids, self.stopping)
                self._note(transaction, collisions, late)
                yield 0.0

    def _next(self) -> Transaction | None:
        """The plan's next transaction, once it is due."""
        with self._taking:
            transaction = next(self._due, None)
            if transaction is not None:
                with self.changed:
                    self._under_way.add(transaction.number)
            return transaction

    def _wait_for(self, transaction: Transaction) -> None:
        """Until all that the transaction needs has ended. Needs are always earlier ones, and the
        earliest under way has none, so writers never wait for each other in a circle."""
        with self.changed:
            in_time = self.changed.wait_for(
                lambda: self.stopping.is_set() or not transaction.needs & self._under_way,
                timeout=NEEDS_SECONDS_MAX,
            )
        if not in_time:
            raise PostgresUnavailableError(
                f"transaction {transaction.number} ({transaction.kind}) waited "
                f"{NEEDS_SECONDS_MAX:.0f} s for an earlier one: something holds a lock in the "
                "database; look for it in pg_stat_activity, end it, and run the command again"
            )

    def _note(self, transaction: Transaction, collisions: int, late: float) -> None:
        with self.changed:
            self._under_way.discard(transaction.number)
            self._report.transactions[transaction.kind] += 1
            self._report.placed_orders += transaction.placed_orders
            self._report.collisions += collisions
            self._report.late_seconds_max = max(self._report.late_seconds_max, late)
            self.changed.notify_all()
        self._on_progress(transaction.placed_orders)
