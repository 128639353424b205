"""Reads the change topic: as it grows, as a Spark stream, and a stretch of it again by offsets.

A topic that is not named is the one of the pipeline's source. It has one partition, so an offset
alone names a record. Only committed records are read: our connector delivers at least once, without
transactions of Kafka's, but a Connect elsewhere may write in them.
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from lockstep.accounts import KafkaUser
from lockstep.errors import StreamError
from lockstep.kafka_login import client, java_client
from lockstep.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SLICE_RECORDS = 20_000
"""Records of one slice of a stretch that is read again: some 20 MB."""
QUIET_SECONDS_MAX = 60.0
"""A stretch that is known to be there and does not come: the broker is gone."""
BROKER_SECONDS_MAX = 10.0
SILENT_BROKER_MS = 20_000
"""A query fails when records that are known to be there do not come for so long. Spark's default of
two minutes would keep a stream from noticing that the broker is back, and from being stopped."""
FETCH_WAIT_MS = 20
"""The broker answers a fetch so soon when it has nothing. Where the connector writes in Kafka's
transactions, the last offset of a micro-batch can be a marker, no record: with Kafka's default the
read of it waited half a second."""

AHEAD = {"queued.max.messages.kbytes": 16 * 1024, "fetch.queue.backoff.ms": 10}
"""What a client may have fetched before it is asked for, and how soon it fetches more once there is
room: by default 64 MB, and a second."""
_AWAY = frozenset(
    {
        KafkaError._PARTITION_EOF,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
        KafkaError._RESOLVE,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REQUEST_TIMED_OUT,
    }
)
"""That a topic is gone for good is found by its id (streams/identity.py): a broker that has just
started may not know it yet."""


def stream(
    spark: "SparkSession",
    settings: Settings,
    *,
    first_offset: int,
    records_max: int,
    topic: str = "",
) -> "DataFrame":
    """A streaming DataFrame of offset (bigint) and value (binary), from first_offset on.

    records_max: of one micro-batch. A topic that no longer has an offset fails the query.
    """
    topic = topic or settings.names.change_topic
    login = java_client(settings, KafkaUser.READER)
    return (
        spark.readStream.format("kafka")
        .options(**{f"kafka.{name}": value for name, value in login.items()})
        .option("kafka.isolation.level", "read_committed")
        .option("assign", json.dumps({topic: [0]}))
        .option("startingOffsets", json.dumps({topic: {"0": first_offset}}))
        .option("failOnDataLoss", "true")
        .option("kafkaConsumer.pollTimeoutMs", SILENT_BROKER_MS)
        .option("kafka.fetch.max.wait.ms", FETCH_WAIT_MS)
        .option("maxOffsetsPerTrigger", records_max)
        .load()
        .select("offset", "value")
    )


def read_again(
    settings: Settings, first: int, end: int, topic: str = ""
) -> Iterator[list[tuple[int, bytes | None]]]:
    """(offset, value) of all records with first <= offset < end, in slices.

    A broker that is away is waited for. Raises StreamError when it does not give them.
    """
    topic = topic or settings.names.change_topic
    if first >= end:
        return
    with _reading(settings, topic) as reader:
        reader.assign([TopicPartition(topic, 0, first or OFFSET_BEGINNING)])
        heard = time.monotonic()
        while True:
            messages = reader.consume(SLICE_RECORDS, timeout=0.5)
            found = [_checked(message) for message in messages if not _is_none(message)]
            if found or any(map(is_end, messages)):
                heard = time.monotonic()
            elif time.monotonic() - heard > QUIET_SECONDS_MAX:
                raise _silent(settings, first, end, topic)
            yield [(offset, value) for offset, value in found if offset < end]
            if any(offset >= end - 1 for offset, _ in found) or _position(reader, topic) >= end:
                return


class TopicReading:
    """A topic read from an offset on, for as long as it is asked; to be made by topic_reading."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    def records(self, most: int, wait_seconds: float) -> list[tuple[int, bytes | None]]:
        """(offset, value) of the next records, all that are there, after waiting for the first.

        [] when none comes, also while the broker is away: the client asks again by itself. Raises
        KafkaException, of which topic_reading makes a StreamError, when the topic has lost them, or
        Kafka refuses to give them.
        """
        first = self._consumer.poll(wait_seconds)
        if first is None:
            return []
        messages = [first, *self._consumer.consume(most - 1, timeout=0)]
        return [_checked(message) for message in messages if not _is_none(message)]


@contextmanager
def topic_reading(settings: Settings, topic: str, first: int) -> Iterator[TopicReading]:
    """The topic's records from an offset on, for the block; what Kafka refuses is a StreamError."""
    with _reading(settings, topic, **AHEAD) as reader:
        reader.assign([TopicPartition(topic, 0, first)])
        yield TopicReading(reader)


def first_offset(settings: Settings, topic: str = "") -> int:
    """The offset of the first record that the topic still has. Raises StreamError as end_offset."""
    topic = topic or settings.names.change_topic
    return _bounds(settings, topic)[0]


def end_offset(settings: Settings, topic: str = "") -> int:
    """The offset after the topic's last record. Raises StreamError when there is no answer."""
    topic = topic or settings.names.change_topic
    return _bounds(settings, topic)[1]


class ChangeTopicEnd:
    """Says again and again where the change topic ends, over a connection that it keeps."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._reader: Consumer | None = None

    def offset(self) -> int:
        """The offset after the last record. Raises StreamError when there is no answer."""
        topic = self._settings.names.change_topic
        if self._reader is None:
            self._reader = consumer(self._settings)
        with _answers(self._settings, f"let {topic} be read"):
            return _bounds_of(self._reader, topic)[1]


def began_at(settings: Settings) -> datetime | None:
    """When the topic's first record was written, by the broker; None when it has none.

    The connector makes its slot before it writes anything, so that what was committed later is in
    the topic as changes. Raises StreamError when the broker does not answer.
    """
    with _reading(settings) as reader:
        reader.assign([TopicPartition(settings.names.change_topic, 0, OFFSET_BEGINNING)])
        deadline = time.monotonic() + BROKER_SECONDS_MAX
        while time.monotonic() < deadline:
            message = reader.poll(0.5)
            if message is None:
                continue
            if is_end(message):
                return None
            _checked(message)
            return datetime.fromtimestamp(message.timestamp()[1] / 1000, UTC)
    raise StreamError(
        f"Kafka at {settings.kafka_bootstrap} does not say when {settings.names.change_topic} "
        "began; see `lockstep status`"
    )


def offset_at(settings: Settings, moment: datetime) -> int:
    """The offset of the first record written at that moment or later; the end if there is none."""
    with _reading(settings) as reader:
        at_ms = round(moment.timestamp() * 1000)
        (found,) = reader.offsets_for_times(
            [TopicPartition(settings.names.change_topic, 0, at_ms)], timeout=BROKER_SECONDS_MAX
        )
    return found.offset if found.offset >= 0 else end_offset(settings)


def _bounds(settings: Settings, topic: str) -> tuple[int, int]:
    with _reading(settings, topic) as reader:
        return _bounds_of(reader, topic)


def _bounds_of(reader: Consumer, topic: str) -> tuple[int, int]:
    return reader.get_watermark_offsets(TopicPartition(topic, 0), timeout=BROKER_SECONDS_MAX)


def topic_id(settings: Settings, topic: str = "") -> str | None:
    """The id that Kafka gave the topic when it was created; None when it says that there is none.

    It says so when it is asked for the topic, and when it is asked for all topics. Raises
    StreamError when there is no answer, or two that differ. A broker that has just started may say
    None of a topic that it has: only an answer that stays the same is believed (streams/identity).
    """
    topic = topic or settings.names.change_topic
    admin = AdminClient({**client(settings, KafkaUser.READER), "log_level": 0})
    try:
        asked = admin.describe_topics(TopicCollection([topic]), request_timeout=BROKER_SECONDS_MAX)
        return str(asked[topic].result(timeout=BROKER_SECONDS_MAX).topic_id)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            _require_unlisted(settings, admin, topic)
            return None
        raise StreamError(
            f"Kafka at {settings.kafka_bootstrap} does not say which topic {topic} is: "
            f"{error.args[0].str()}; see `lockstep status`"
        ) from error
    except TimeoutError as error:
        raise StreamError(
            f"Kafka at {settings.kafka_bootstrap} does not answer; see `lockstep status`"
        ) from error


def _require_unlisted(settings: Settings, admin: AdminClient, topic: str) -> None:
    """Raise StreamError unless a cluster with a controller lists its topics without this one."""
    with _answers(settings, "list its topics"):
        listing = admin.list_topics(timeout=BROKER_SECONDS_MAX)
    if not listing.brokers or listing.controller_id < 0:
        raise StreamError(
            f"Kafka at {settings.kafka_bootstrap} has no controller yet, so that what it says of "
            "its topics is not believed; see `lockstep status`"
        )
    if topic in listing.topics:
        raise StreamError(
            f"Kafka at {settings.kafka_bootstrap} lists the topic {topic} and does not "
            "describe it: it is being made or deleted; ask again"
        )


def consumer(settings: Settings, **more: object) -> Consumer:
    """A consumer of committed records that reports the topic's end (`is_end`); to be closed.

    more: configuration of librdkafka's.
    """
    return Consumer(
        {
            **more,
            **client(settings, KafkaUser.READER),
            "group.id": "lockstep",  # the client asks for one; nothing is committed under it
            "enable.auto.commit": False,
            "auto.offset.reset": "error",  # a removed offset is an error, not passed over
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )


@contextmanager
def _reading(settings: Settings, topic: str = "", **more: object) -> Iterator[Consumer]:
    """A consumer for the block; what Kafka refuses there is a StreamError. more: as of consumer."""
    topic = topic or settings.names.change_topic
    reader = consumer(settings, **more)
    try:
        with _answers(settings, f"let {topic} be read"):
            yield reader
    finally:
        reader.close()


@contextmanager
def _answers(settings: Settings, what: str) -> Iterator[None]:
    """What Kafka refuses in the block is a StreamError: that it does not do `what`."""
    try:
        yield
    except KafkaException as error:
        raise StreamError(
            f"Kafka at {settings.kafka_bootstrap} does not {what}: {error.args[0].str()}; see "
            "`lockstep status`"
        ) from error


def is_end(message: object) -> bool:
    """Whether a consumed message is none, but says that there are no more for now."""
    error = message.error()
    return error is not None and error.code() == KafkaError._PARTITION_EOF


def _is_none(message: object) -> bool:
    """Whether a consumed message is none: it says that there are no more, or that the broker is
    away, or not ready."""
    error = message.error()
    return error is not None and error.code() in _AWAY


def _checked(message: object) -> tuple[int, bytes | None]:
    if message.error() is not None:
        raise KafkaException(message.error())
    return message.offset(), message.value()


def _position(reader: Consumer, topic: str) -> int:
    return reader.position([TopicPartition(topic, 0)])[0].offset


def _silent(settings: Settings, first: int, end: int, topic: str) -> StreamError:
    return StreamError(
        f"Kafka at {settings.kafka_bootstrap} did not give offsets {first} to {end} of "
        f"{topic} within {QUIET_SECONDS_MAX:.0f} s; see `lockstep status`"
    )
