"""Reading the change topic, and killing services, for the tests of the real stack."""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition
from lockstep.accounts import KafkaUser
from lockstep.host import process
from lockstep.kafka_login import client
from lockstep.settings import Settings
from pizzeria import names as pizzeria

CHANGE_SECONDS_MAX = 60


class ChangeTopic:
    """The committed records of the change topic, read on from where it was opened."""

    def __init__(self, settings: Settings) -> None:
        self._consumer = Consumer(
            {
                **client(settings, KafkaUser.ADMIN),
                "group.id": "tests",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        partition = TopicPartition(pizzeria.CHANGE_TOPIC, 0)
        _, partition.offset = self._consumer.get_watermark_offsets(partition, timeout=30)
        self._consumer.assign([partition])

    def until(self, is_last: Callable[[dict], bool]) -> list[dict]:
        """The records that came, up to the first that `is_last`; fails after a minute."""
        records: list[dict] = []
        deadline = time.monotonic() + CHANGE_SECONDS_MAX
        while time.monotonic() < deadline:
            message = self._consumer.poll(0.2)
            if message is None or message.error() or message.value() is None:
                continue
            records.append(json.loads(message.value()))
            if is_last(records[-1]):
                return records
        pytest.fail(f"not seen in {CHANGE_SECONDS_MAX} s; last records: {records[-3:]}")

    def close(self) -> None:
        self._consumer.close()


@pytest.fixture
def change_topic(change_capture: Settings) -> Iterator[ChangeTopic]:
    """The change topic from its present end on."""
    topic = ChangeTopic(change_capture)
    yield topic
    topic.close()


@pytest.fixture
def crash() -> Callable[[Settings, str], None]:
    """Kills a service with SIGKILL and waits until its process is gone."""

    def kill(settings: Settings, service: str) -> None:
        record = process.read_record(settings.home, service)
        assert record is not None
        os.kill(record.pid, signal.SIGKILL)
        deadline = time.monotonic() + 10
        while record.process() is not None:
            assert time.monotonic() < deadline
            time.sleep(0.02)

    return kill
