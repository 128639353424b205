"""Places simple orders at a fixed rate: the open-loop load of the latency benchmark.

Each order is one transaction, with the client and seating that are new with it, outbox row and
message. A slow database makes orders late, never fewer.
"""

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from lockstep.contracts import Role
from lockstep.settings import Settings
from lockstep.sources.postgres import connect
from pizzeria.shop.backdate import seated_at
from pizzeria.shop.order_inserts import insert_orders

SEED = 1


@dataclass
class Placed:
    """By order: when the shop heard that it is committed, in nanoseconds since the epoch."""

    acknowledged_ns: dict[int, int] = field(default_factory=dict)
    late_seconds_max: float = 0.0


def place_paced(settings: Settings, rate: float, seconds: float) -> Placed:
    """Place rate * seconds orders, each due at its place in the schedule, on one connection."""
    placed = Placed()
    with connect(settings, Role.SHOP) as connection:
        begins = datetime.now(UTC)
        times = [begins + timedelta(seconds=place / rate) for place in range(int(rate * seconds))]
        seated, existing = seated_at(connection, times, SEED)
        started = time.monotonic()
        for place, entry in enumerate(seated):
            due_in = started + place / rate - time.monotonic()
            placed.late_seconds_max = max(placed.late_seconds_max, -due_in)
            time.sleep(max(0.0, due_in))
            insert_orders(connection, [entry], existing)
            placed.acknowledged_ns[entry.order.id] = time.time_ns()
    return placed
