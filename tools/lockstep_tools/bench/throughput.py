"""`lockstep bench throughput`: a backlog drained, and Debezium alone beside it.

Orders are loaded through the database while the connector is paused. Then Debezium alone writes
them to the change topic; its own rate is that of the topic's records. Then each stream is started
on the topic, one after the other, as in production, and drains what is there.
"""

import base64
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
from confluent_kafka import KafkaException, TopicPartition
from lockstep.capture import connector
from lockstep.capture.connectors import connector_of
from lockstep.errors import ServiceError
from lockstep.model.modes import StreamMode
from lockstep.pipeline.names import cut_prefix
from lockstep.settings import Settings
from lockstep.sources import change_topic
from lockstep.sources.postgres import connect
from lockstep.supervise import launcher
from numpy.typing import NDArray
from pizzeria.names import CHANGE_TOPIC, SOURCE, Login
from pizzeria.shop.backdate import place_orders_at

from lockstep_tools.bench.change_rows import VISIBLE_AT, rows_seen
from lockstep_tools.bench.stream_stack import REASON
from lockstep_tools.bench.version_watch import VersionWatch
from lockstep_tools.soak.catching_up import wait_until_caught_up
from lockstep_tools.soak.change_logs import folder_of

DEBEZIUM_SECONDS_MAX = 600.0
DRAIN_SECONDS_MAX = 1800.0
RECORDS_AT_ONCE = 10_000
SEED = 1
_END = "the end of a benchmark's backlog"
_EMIT = "SELECT pg_logical_emit_message(true, %s, %s)"


@dataclass(frozen=True)
class Written:
    """What Debezium alone wrote, from its first record of the backlog to its last."""

    records: int
    seconds: float


@dataclass(frozen=True)
class Drained:
    """One stream's drain, from the moment it said that it works to its last row readable.

    warm_rows_per_second leaves the first commit out, by which the JVM is warm; None when there was
    no other.
    """

    mode: StreamMode
    rows: int
    seconds: float
    warm_rows_per_second: float | None
    start_seconds: float


@dataclass(frozen=True)
class Measured:
    """One run: the orders loaded, Debezium alone, then each mode alone."""

    orders: int
    load_seconds: float
    debezium: Written
    modes: list[Drained]


def measure(
    settings: Settings, modes: Sequence[StreamMode], orders: int, on_progress: Callable[[str], None]
) -> Measured:
    """Load `orders` orders, each a transaction, and drain them by each mode on its own.

    settings: a stack without streams (stream_stack). Raises LockstepError when something fails or
    takes far too long.
    """
    first = change_topic.end_offset(settings)
    connector.pause(settings, connector_of(settings))
    on_progress(f"loading {orders:,} orders, the connector paused")
    began = time.monotonic()
    _load(settings, orders)
    load_seconds = time.monotonic() - began
    on_progress("Debezium alone")
    connector.resume(settings, connector_of(settings))
    debezium = _written(settings, first)
    drained = []
    for mode in modes:
        on_progress(f"{mode} alone")
        drained.append(_drained(settings, mode))
    return Measured(orders, load_seconds, debezium, drained)


def _load(settings: Settings, orders: int) -> None:
    now = datetime.now(UTC)
    times = [now + timedelta(milliseconds=place) for place in range(orders)]
    place_orders_at(settings, times, SEED)
    with connect(settings, Login.SHOP) as connection:
        connection.execute(_EMIT, [cut_prefix(SOURCE), _END])


def _written(settings: Settings, first: int) -> Written:
    """Read the topic from this offset until the backlog's end comes by."""
    end = base64.b64encode(_END.encode())
    stamps: list[int] = []
    for stamp_ms, value in _records(settings, first, DEBEZIUM_SECONDS_MAX):
        stamps.append(stamp_ms)
        if value is not None and end in value:
            return Written(len(stamps), (stamps[-1] - stamps[0]) / 1000)
    raise ServiceError(
        f"Debezium wrote {len(stamps):,} records in {DEBEZIUM_SECONDS_MAX:.0f} s, and not the last "
        "one of the backlog: `lockstep logs connect` in the benchmark's home shows more"
    )


def _records(
    settings: Settings, first: int, seconds_max: float
) -> Iterator[tuple[int, bytes | None]]:
    """When each record was written, in milliseconds, and its value; ends after seconds_max."""
    consumer = change_topic.consumer(settings)
    consumer.assign([TopicPartition(CHANGE_TOPIC, 0, first)])
    deadline = time.monotonic() + seconds_max
    try:
        while time.monotonic() < deadline:
            for message in consumer.consume(RECORDS_AT_ONCE, timeout=0.5):
                if change_topic.is_end(message):
                    continue
                if message.error() is not None:
                    raise KafkaException(message.error())
                yield message.timestamp()[1], message.value()
    except KafkaException as error:
        raise ServiceError(f"{CHANGE_TOPIC} cannot be read: {error}") from error
    finally:
        consumer.close()


def _drained(settings: Settings, mode: StreamMode) -> Drained:
    folder = folder_of(settings, mode)
    with VersionWatch({str(mode): folder}) as watch:
        began = time.monotonic()
        launcher.start(settings, [str(mode)], REASON)
        start_seconds, started_ns = time.monotonic() - began, time.time_ns()
        wait_until_caught_up(settings, [mode], DRAIN_SECONDS_MAX)
        seen = watch.seen()[str(mode)]
    launcher.stop_all(settings, REASON)
    rows = rows_seen(folder, seen)
    visible_ns = rows[VISIBLE_AT].to_numpy().astype("datetime64[ns]").astype(np.int64)
    seconds = (int(visible_ns.max()) - started_ns) / 1e9
    return Drained(mode, rows.num_rows, seconds, warm_rate(visible_ns), start_seconds)


def warm_rate(visible_ns: NDArray[np.int64]) -> float | None:
    """Rows a second after the first commit; None when there was no other.

    visible_ns: when each row could be read, in nanoseconds; rows of one commit have the same.
    """
    first, last = visible_ns.min(), visible_ns.max()
    if first == last:
        return None
    return float((visible_ns > first).sum() / ((last - first) / 1e9))
