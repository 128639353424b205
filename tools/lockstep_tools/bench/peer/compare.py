"""Measures the sides by turns: a backlog drained, then latency under a paced load.

All sides read the same topic of one stack, one side at a time. A side's repetitions lie between
those of the others, so that a noisy machine troubles all alike.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from lockstep.settings import Settings
from lockstep.sources.postgres import connect
from lockstep.waiting import wait_until
from pizzeria.names import OUTBOX, Login
from pizzeria.shop.backdate import place_orders_at
from psycopg import sql

from lockstep_tools.bench.latency import Distribution, distribution
from lockstep_tools.bench.paced_orders import place_paced
from lockstep_tools.bench.peer.install import Flink
from lockstep_tools.bench.peer.job import Sink
from lockstep_tools.bench.peer.rows import Rows, require_each_once
from lockstep_tools.bench.peer.sides import FlinkTo, Lockstep, Run, Side
from lockstep_tools.bench.peer.topic_rows import topic_rows
from lockstep_tools.bench.peer.usage import UsageWatch
from lockstep_tools.errors import MeasurementError

DRAIN_SECONDS_MAX = 1800.0
CATCH_UP_SECONDS_MAX = 300.0
DEBEZIUM_SECONDS_MAX = 600.0
DEBEZIUM_PAUSE_SECONDS = 1.0
SEED = 2
"""Not the paced load's."""


@dataclass(frozen=True)
class Load:
    """rate: orders a second. orders: of the backlog; 0 leaves the drains out."""

    rate: float
    warm_up_seconds: float
    seconds: float
    orders: int
    rounds: int


@dataclass(frozen=True)
class Latency:
    """One round of a side: from commit to readable, and what its processes took meanwhile.

    other_cores: what all else on the machine took; more than in other rounds means a disturbed one.
    """

    rows: int
    seconds: Distribution
    busy_cores: float
    other_cores: float
    peak_mib: float
    late_seconds_max: float


@dataclass(frozen=True)
class Drain:
    """One round of a side: seconds from ready until the last row could be read."""

    rows: int
    start_seconds: float
    seconds: float


@dataclass
class Measured:
    """By side, in the order of the rounds."""

    load: Load
    drains: dict[str, list[Drain]] = field(default_factory=dict)
    latencies: dict[str, list[Latency]] = field(default_factory=dict)


def measure(
    settings: Settings,
    flink: Flink,
    sinks: Sequence[Sink],
    load: Load,
    on_progress: Callable[[str], None],
) -> Measured:
    """Measure Lockstep and Flink with each of these sinks.

    settings: a stack without streams (stream_stack). Raises MeasurementError when Flink's job fails
    or a side did not write each row once, and LockstepError when a stream does.
    """
    sides: list[Side] = [Lockstep(settings), *(FlinkTo(settings, flink, sink) for sink in sinks)]
    measured = Measured(load)
    if load.orders:
        on_progress(f"loading {load.orders:,} orders")
        _load_backlog(settings, load.orders)
        for side in _by_turns(sides, load.rounds, "drain", on_progress):
            measured.drains.setdefault(side.name, []).append(_drain(settings, side))
    for side in _by_turns(sides, load.rounds, "latency", on_progress):
        measured.latencies.setdefault(side.name, []).append(_latency(settings, side, load))
    return measured


def _load_backlog(settings: Settings, orders: int) -> None:
    """Place them, and wait until Debezium has written them all to the topic."""
    now = datetime.now(UTC)
    times = [now + timedelta(milliseconds=place) for place in range(orders)]
    place_orders_at(settings, times, SEED)
    expected = _rows_of_outbox(settings)
    found = wait_until(
        lambda: len(topic_rows(settings)),
        DEBEZIUM_SECONDS_MAX,
        DEBEZIUM_PAUSE_SECONDS,
        lambda rows: rows >= expected,
    )
    if found < expected:
        raise MeasurementError(
            f"Debezium wrote {found:,} of {expected:,} orders in {DEBEZIUM_SECONDS_MAX:.0f} s: "
            "`lockstep logs connect` in the benchmark's home shows more"
        )


def _by_turns(
    sides: Sequence[Side], rounds: int, what: str, on_progress: Callable[[str], None]
) -> Iterator[Side]:
    for number in range(1, rounds + 1):
        for side in sides:
            on_progress(f"{what}, round {number} of {rounds}: {side.name}")
            yield side


def _drain(settings: Settings, side: Side) -> Drain:
    expected = _rows_of_outbox(settings)
    with side.running() as run:
        rows = _all_rows(side, run, expected, DRAIN_SECONDS_MAX)
    seconds = (int(rows.visible_ns.max()) - run.ready_ns) / 1e9
    return Drain(expected, run.start_seconds, seconds)


def _latency(settings: Settings, side: Side, load: Load) -> Latency:
    with side.running() as run:
        run.wait_for(_rows_of_outbox(settings), CATCH_UP_SECONDS_MAX)
        counted_from = time.time() + load.warm_up_seconds
        with UsageWatch(run.pid) as usage:
            placed = place_paced(settings, load.rate, load.warm_up_seconds + load.seconds)
        taken = usage.between(counted_from, time.time())
        expected = _rows_of_outbox(settings)
        rows = _all_rows(side, run, expected, CATCH_UP_SECONDS_MAX)
    counted = rows.since(round(counted_from * 1e6))
    if not len(counted.order_ids):
        raise MeasurementError(f"{side.name} wrote no row of an order placed after the warm-up")
    return Latency(
        len(counted.order_ids),
        distribution(counted.seconds),
        taken.busy_cores,
        taken.other_cores,
        taken.peak_mib,
        placed.late_seconds_max,
    )


def _all_rows(side: Side, run: Run, expected: int, seconds_max: float) -> Rows:
    run.wait_for(expected, seconds_max)
    rows = run.rows()
    require_each_once(side.name, rows, expected)
    return rows


def _rows_of_outbox(settings: Settings) -> int:
    with connect(settings, Login.OWNER) as connection:
        query = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(OUTBOX))
        return connection.execute(query).fetchone()[0]
