"""`lockstep bench transport`: how a record comes from Kafka to the driver's Python, by three ways.

A consumer in the driver, which the streams' reader is; micro-batches of Spark; and Spark's
Real-Time Mode, which here writes to a second topic that the consumer reads, since Python has no
other sink that takes each record as it comes. By turns, on a broker of the benchmark's own.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from confluent_kafka import Producer
from lockstep.accounts import KafkaUser
from lockstep.capture.topic_rights import grant_reading
from lockstep.kafka_login import client, java_client
from lockstep.settings import Settings
from lockstep.sources import change_topic
from lockstep.spark import stream_session
from lockstep.waiting import wait_until

from lockstep_tools.bench.latency import Distribution, distribution
from lockstep_tools.bench.peer.usage import cpu_seconds
from lockstep_tools.bench.topics import make_topic
from lockstep_tools.errors import MeasurementError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WARM_UP_SECONDS = 15.0
ARRIVAL_SECONDS_MAX = 30.0
LOOK_SECONDS = 0.1
VALUE_BYTES = 800
"""About a change of a table with its envelope."""
REAL_TIME_BATCH = "5 minutes"
"""Between two checkpoints of Real-Time Mode, the least that it allows."""


class Way(StrEnum):
    CONSUMER = "consumer"
    MICRO_BATCHES = "micro-batches"
    REAL_TIME = "Real-Time Mode, to Kafka"


@dataclass(frozen=True)
class Measured:
    """Of one way: seconds from the producer to Python, and cores of Python and the JVM together."""

    way: Way
    records: int
    latency: Distribution
    cores: float


def measure(
    settings: Settings, rate: float, seconds: float, on_progress: Callable[[str], None]
) -> list[Measured]:
    """settings: of a stack with a broker. rate: records a second.

    Raises MeasurementError when records do not arrive.
    """
    spark = stream_session(settings, "bench transport")
    try:
        found = []
        for number, way in enumerate(Way):
            on_progress(f"{way}: {rate:g} records a second for {WARM_UP_SECONDS + seconds:.0f} s")
            topic = f"bench.transport.{number}"
            found.append(_measured(settings, spark, way, topic, _Load(rate, seconds)))
        return found
    finally:
        spark.stop()


class _Load(NamedTuple):
    """Records a second, and for how many seconds they count after the warm-up."""

    rate: float
    seconds: float

    def produce(self, settings: Settings, topic: str) -> tuple[int, float]:
        """Returns how many there were, and the cores of this process and its children."""
        uncounted = round(self.rate * WARM_UP_SECONDS)
        total = uncounted + round(self.rate * self.seconds)
        producer = Producer({**client(settings, KafkaUser.ADMIN), "linger.ms": 0})
        began, before, first = 0.0, 0.0, time.monotonic()
        for number in range(total):
            if number == uncounted:
                began, before = time.monotonic(), cpu_seconds(os.getpid())
            time.sleep(max(0.0, first + number / self.rate - time.monotonic()))
            producer.produce(topic, f"{time.time_ns():<{VALUE_BYTES}}".encode(), partition=0)
            producer.poll(0)
        producer.flush(ARRIVAL_SECONDS_MAX)
        return total, (cpu_seconds(os.getpid()) - before) / (time.monotonic() - began)


def _measured(
    settings: Settings, spark: "SparkSession", way: Way, topic: str, load: _Load
) -> Measured:
    read = f"{topic}.copied" if way is Way.REAL_TIME else topic
    for name in {topic, read}:
        make_topic(settings, name)
        grant_reading(settings, name)
    arrived: list[tuple[int, int]] = []
    with _reading(settings, spark, way, topic, arrived):
        total, cores = load.produce(settings, topic)
        if not wait_until(lambda: len(arrived) >= total, ARRIVAL_SECONDS_MAX, LOOK_SECONDS):
            raise MeasurementError(f"{way}: {len(arrived):,} of {total:,} records arrived")
    counted = arrived[-round(load.rate * load.seconds) :]
    latencies = np.array([at - sent for sent, at in counted]) / 1e9
    return Measured(way, len(counted), distribution(latencies), cores)


@contextmanager
def _reading(
    settings: Settings, spark: "SparkSession", way: Way, topic: str, arrived: list[tuple[int, int]]
) -> Iterator[None]:
    """Note when each record was sent, and when it came to Python, in nanoseconds."""
    if way is Way.MICRO_BATCHES:
        with _query(settings, _micro_batches(settings, spark, topic, arrived)):
            yield
    elif way is Way.CONSUMER:
        with _consuming(settings, topic, arrived):
            yield
    else:
        with (
            _consuming(settings, f"{topic}.copied", arrived),
            _query(settings, _copying(settings, spark, topic)),
        ):
            yield


@contextmanager
def _consuming(settings: Settings, topic: str, arrived: list[tuple[int, int]]) -> Iterator[None]:
    ended = threading.Event()

    def consume() -> None:
        with change_topic.topic_reading(settings, topic, 0) as reading:
            while not ended.is_set():
                for _, value in reading.records(5_000, 0.25):
                    arrived.append((int(value), time.time_ns()))

    thread = threading.Thread(target=consume, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _micro_batches(
    settings: Settings, spark: "SparkSession", topic: str, arrived: list[tuple[int, int]]
) -> object:
    def take(rows: "DataFrame", _number: int) -> None:
        values = rows.toArrow()["value"].to_pylist()
        at = time.time_ns()
        arrived.extend((int(value), at) for value in values)

    records = change_topic.stream(spark, settings, first_offset=0, records_max=50_000, topic=topic)
    return records.writeStream.foreachBatch(take)


def _copying(settings: Settings, spark: "SparkSession", topic: str) -> object:
    """Real-Time Mode allows this source and this sink, and nothing stateful."""
    spark.conf.set("spark.sql.streaming.realTimeMode.allowlistCheck", "false")
    login = java_client(settings, KafkaUser.ADMIN)
    return (
        spark.readStream.format("kafka")
        .options(**{f"kafka.{name}": value for name, value in login.items()})
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
        .select("value")
        .writeStream.format("kafka")
        .options(**{f"kafka.{name}": value for name, value in login.items()})
        .option("topic", f"{topic}.copied")
        .outputMode("update")
        .trigger(realTime=REAL_TIME_BATCH)
    )


@contextmanager
def _query(settings: Settings, prepared: object) -> Iterator[None]:
    location = Path(settings.home) / "bench-transport" / str(time.time_ns())
    query = prepared.option("checkpointLocation", str(location)).start()
    try:
        yield
        if (failure := query.exception()) is not None:
            raise MeasurementError(f"Spark's query has ended: {failure}")
    finally:
        query.stop()
