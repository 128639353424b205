"""Live orders at a steady pace, while the streams run; only their order_time lies in the past.

So the hours that they belong to are over, and their hourly runs can be had at once.
"""

import random
import time
from collections.abc import Callable
from datetime import datetime

from lockstep.model.window import Window
from lockstep.settings import Settings
from lockstep.sources.postgres import connect

from pizzeria.names import Login
from pizzeria.shop.backdate import orders_at
from pizzeria.shop.replay import replay
from pizzeria.shop.writers import when_due

ORDERS_PER_SECOND = 25
TOLD_EVERY = 25
"""Orders between two reports: one a second."""


def order_times(windows: list[Window], per_window: int, seed: int) -> list[datetime]:
    """`per_window` moments in each of the windows, in order."""
    rng = random.Random(seed)  # noqa: S311 - made-up times, not a secret
    return sorted(
        window.start + rng.random() * window.duration
        for window in windows
        for _ in range(per_window)
    )


def place_live(
    settings: Settings, times: list[datetime], seed: int, on_progress: Callable[[int], None]
) -> None:
    """Place an order for each of these times, ORDERS_PER_SECOND; each is a transaction of its own.

    on_progress: how many are committed, about once a second. A slow database makes orders late,
    never fewer. Raises PostgresUnavailableError.
    """
    with connect(settings, Login.SHOP) as connection:
        transactions, ids = orders_at(connection, times, seed, ORDERS_PER_SECOND)
        for place, transaction in enumerate(when_due(transactions, time.monotonic())):
            replay(connection, [transaction], ids)
            if place % TOLD_EVERY == 0:
                on_progress(place + 1)
