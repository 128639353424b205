"""Waits until planned transactions are due. What they are is plan.py's and replay.py's to say."""

import threading
import time
from collections.abc import Iterable, Iterator

from pizzeria.shop.operations import Transaction


def when_due(
    transactions: Iterable[Transaction], started: float, stop: threading.Event | None = None
) -> Iterator[Transaction]:
    """Each transaction when its time has come, counted from `started` (time.monotonic()).

    Open loop: one that is asked for late comes at once. Ends early when `stop` is set.
    """
    stop = stop or threading.Event()
    for transaction in transactions:
        if stop.wait(max(0.0, started + transaction.due_seconds - time.monotonic())):
            return
        yield transaction
