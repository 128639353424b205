"""Places simple orders at a fixed rate: the open-loop load of the latency benchmark.

Each order is one transaction, with the client and seating that are new with it, outbox row and
message. A slow database makes orders late, never fewer.
"""

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from lockstep.settings import Settings
from lockstep.sources.postgres import connect
from pizzeria.names import Login
from pizzeria.shop.backdate import orders_at
from pizzeria.shop.replay import replay
from pizzeria.shop.writers import when_due

SEED = 1


@dataclass
class Placed:
    """By order: when the shop heard that it is committed, in nanoseconds since the epoch."""

    acknowledged_ns: dict[int, int] = field(default_factory=dict)
    late_seconds_max: float = 0.0


def place_paced(settings: Settings, rate: float, seconds: float) -> Placed:
    """Place rate * seconds orders, each due at its place in the schedule, on one connection."""
    placed = Placed()
    with connect(settings, Login.SHOP) as connection:
        begins = datetime.now(UTC)
        times = [begins + timedelta(seconds=place / rate) for place in range(int(rate * seconds))]
        transactions, ids = orders_at(connection, times, SEED, rate)
        started = time.monotonic()
        for transaction in when_due(transactions, started):
            late_seconds = time.monotonic() - started - transaction.due_seconds
            placed.late_seconds_max = max(placed.late_seconds_max, late_seconds)
            replay(connection, [transaction], ids)
            placed.acknowledged_ns[ids["order", transaction.number]] = time.time_ns()
    return placed
