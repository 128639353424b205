"""Delivers records of the change topic once more, as a connector does that lost its offsets.

The records are copied to the topic's end, byte by byte, while new ones may come between them.
"""

import time

from confluent_kafka import Consumer, Producer, TopicPartition
from lockstep.accounts import KafkaUser
from lockstep.kafka_login import client
from lockstep.settings import Settings
from lockstep.sources import change_topic
from pizzeria.names import CHANGE_TOPIC

from lockstep_tools.errors import SoakError

DELIVERY_SECONDS_MAX = 120.0
_PARTITION = 0


def deliver_again(settings: Settings, records: int) -> int:
    """Append the topic's last `records` records to it again; returns how many there were.

    The stretch begins anywhere, so also inside a transaction. It ends at the topic's end of now.
    Raises SoakError.
    """
    consumer = change_topic.consumer(settings)
    try:
        low, high = consumer.get_watermark_offsets(
            TopicPartition(CHANGE_TOPIC, _PARTITION), timeout=DELIVERY_SECONDS_MAX
        )
        consumer.assign([TopicPartition(CHANGE_TOPIC, _PARTITION, max(low, high - records))])
        return _copy(consumer, _producer(settings), high)
    finally:
        consumer.close()


def _producer(settings: Settings) -> Producer:
    return Producer({**client(settings, KafkaUser.ADMIN), "enable.idempotence": True})


def _copy(consumer: Consumer, producer: Producer, end: int) -> int:
    """Copy up to `end`, or to the topic's last record: Kafka's own markers take offsets, too."""
    copied = 0
    deadline = time.monotonic() + DELIVERY_SECONDS_MAX
    while True:
        message = consumer.poll(1.0)
        if time.monotonic() > deadline:
            raise SoakError(f"only {copied} records read again in {DELIVERY_SECONDS_MAX:.0f} s")
        if message is None:
            continue
        if message.error() is not None:
            if change_topic.is_end(message):
                break
            raise SoakError(f"the change topic cannot be read: {message.error()}")
        if message.offset() >= end:
            break
        producer.produce(CHANGE_TOPIC, message.value(), message.key(), _PARTITION)
        producer.poll(0)
        copied += 1
    if left := producer.flush(DELIVERY_SECONDS_MAX):
        raise SoakError(f"{left} records were not taken by Kafka in {DELIVERY_SECONDS_MAX:.0f} s")
    return copied
