"""`lockstep bench large`: a transaction, and a dimension, that no driver's memory holds.

Both go the whole way, through Debezium and the change topic; then each mode, started on the topic
alone, drains it, while its driver's memory is watched. At the end the change log must hold exactly
the orders, pizzas and revenue that the database holds.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from lockstep.devstack import control
from lockstep.model.modes import StreamMode
from lockstep.settings import Settings
from lockstep.sources.postgres import connect
from lockstep.supervise import launcher
from lockstep.supervise.errors import StreamFailedError
from lockstep.supervise.health import Health
from lockstep.supervise.logs import end_of_log
from lockstep.supervise.observation import observe
from pizzeria.names import ORDERS, Login
from pizzeria.shop import bulk
from pizzeria.shop.backdate import place_orders_at
from pizzeria.shop.totals import Totals, totals_of
from psycopg import sql

from lockstep_tools.bench.memory import PeakMemory
from lockstep_tools.bench.stream_stack import REASON, stream_stack
from lockstep_tools.errors import SoakError
from lockstep_tools.soak.catching_up import wait_until_caught_up
from lockstep_tools.soak.drivers import resident_bytes
from lockstep_tools.soak.totals import check_totals

MODES = (StreamMode.TEMPORAL, StreamMode.TRANSACTION)
"""Those that join; the others never look at a dimension."""
DRAIN_SECONDS_MAX = 3600.0
LOOK_SECONDS = 10.0
ORDERS_BESIDE = 20_000
"""Orders that refer to the large dimension."""
LIVE_ORDERS = 1_000
LIVE_SPAN = timedelta(minutes=10)
CHANGES_OF_AN_ORDER = 1 + 1 / bulk.ORDERS_PER_CLIENT + 1 / bulk.ORDERS_PER_ASSIGNMENT
"""The order itself, and its share of the clients and seatings that come with it."""


@dataclass(frozen=True)
class Drained:
    """One mode's drain: seconds since its driver said that it works, and what that held at most.

    differs: how the change log's totals differ from the database's; empty when they are equal.
    """

    mode: StreamMode
    seconds: float
    peak_mib: float
    differs: str


@dataclass(frozen=True)
class Measured:
    """what: the load in words. totals: of the database at the end."""

    what: str
    totals: str
    modes: list[Drained]


def transaction(
    settings: Settings,
    modes: Sequence[StreamMode],
    changes: int,
    on_progress: Callable[[str], None],
) -> Measured:
    """One transaction of so many changes: menu, tables, clients, seatings and orders."""
    with stream_stack(settings) as own:
        on_progress(f"one transaction of {changes:,} changes")
        orders = round(changes / CHANGES_OF_AN_ORDER)
        bulk.fill(own, orders)
        return _measured(own, f"one transaction of {changes:,} changes", modes, on_progress)


def clients(
    settings: Settings, modes: Sequence[StreamMode], count: int, on_progress: Callable[[str], None]
) -> Measured:
    """A database with so many clients before capture begins, and live orders after it."""
    with stream_stack(settings, ["postgres"]) as own:
        on_progress(f"{count:,} clients, before capture begins")
        bulk.fill(own, ORDERS_BESIDE, clients=count)
        control.up(own, ["connect"])
        now = datetime.now(UTC)
        times = [now - LIVE_SPAN * place / LIVE_ORDERS for place in range(LIVE_ORDERS)]
        place_orders_at(own, sorted(times), seed=1)
        return _measured(own, f"{count:,} clients", modes, on_progress)


def _measured(
    settings: Settings, what: str, modes: Sequence[StreamMode], on_progress: Callable[[str], None]
) -> Measured:
    expected = _totals(settings)
    drained = []
    for mode in modes:
        on_progress(f"{mode} alone")
        drained.append(_drained(settings, mode, expected))
    return Measured(what, str(expected), drained)


def _totals(settings: Settings) -> Totals:
    with connect(settings, Login.OWNER) as connection:
        query = sql.SQL("SELECT array_agg(id) FROM {}").format(sql.Identifier(ORDERS))
        return totals_of(connection, connection.execute(query).fetchone()[0])


def _drained(settings: Settings, mode: StreamMode, expected: Totals) -> Drained:
    with PeakMemory(lambda: resident_bytes(settings)) as peak:
        launcher.start(settings, [str(mode)], REASON)
        began = time.monotonic()
        _wait_while_it_works(settings, mode)
        seconds = time.monotonic() - began
        launcher.stop_all(settings, REASON)
    findings = check_totals(settings, mode, expected)
    return Drained(mode, seconds, peak.mib, "; ".join(map(str, findings)))


def _wait_while_it_works(settings: Settings, mode: StreamMode) -> None:
    """Raises StreamFailedError at once when the driver has, SoakError when it takes too long."""
    deadline = time.monotonic() + DRAIN_SECONDS_MAX
    while True:
        try:
            wait_until_caught_up(settings, [mode], LOOK_SECONDS)
        except SoakError:
            seen = observe(settings, mode)
            if seen.finding.health in (Health.FAILED, Health.DEAD):
                log_end = end_of_log(settings, mode)
                raise StreamFailedError(mode, seen.finding.why, log_end) from None
            if time.monotonic() > deadline:
                raise
        else:
            return
