"""The open-loop load: as many orders as the schedule has, none before its time."""

import time

import pytest
from lockstep.settings import Settings
from lockstep.sources.postgres import connect
from lockstep_tools.bench.paced_orders import place_paced
from pizzeria.names import ORDERS, Login

pytestmark = pytest.mark.services

RATE, SECONDS = 40.0, 1.0


def test_each_order_is_placed_once_and_not_before_its_time(pizzeria: Settings) -> None:
    with connect(pizzeria, Login.OWNER) as connection:
        count = f"SELECT count(*) FROM {ORDERS}"
        before = connection.execute(count).fetchone()[0]
        began = time.time_ns()
        placed = place_paced(pizzeria, RATE, SECONDS)
        assert connection.execute(count).fetchone()[0] - before == RATE * SECONDS
    heard = sorted(placed.acknowledged_ns.values())
    assert len(heard) == RATE * SECONDS
    early = [place for place, ns in enumerate(heard) if (ns - began) / 1e9 < place / RATE - 0.001]
    assert early == []
    assert placed.late_seconds_max >= 0
