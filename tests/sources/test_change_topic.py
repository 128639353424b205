"""Records that Kafka no longer has are reported, never passed over."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from lockstep.accounts import KafkaUser
from lockstep.capture.topic_rights import grant_reading
from lockstep.errors import StreamError
from lockstep.kafka_login import client
from lockstep.pipeline.pipeline_names import PipelineNames
from lockstep.settings import Settings
from lockstep.sources import change_topic
from lockstep.streams import identity
from lockstep.streams.errors import TopicIncompleteError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.services

RECORDS = 20
REMOVED = 5
"""The topic's first records, as a retention would remove them."""
SECONDS_MAX = 60


@pytest.fixture(scope="module")
def admin(change_capture: Settings) -> AdminClient:
    return AdminClient(client(change_capture, KafkaUser.ADMIN))


@pytest.fixture
def topic(
    change_capture: Settings, admin: AdminClient, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """A topic of the test's own in the change topic's place, with RECORDS records, all there."""
    name = f"change-topic-{uuid4().hex}"
    monkeypatch.setattr(PipelineNames, "change_topic", name)
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(SECONDS_MAX)
    grant_reading(change_capture, name)
    producer = Producer(client(change_capture, KafkaUser.ADMIN))
    for number in range(RECORDS):
        producer.produce(name, str(number).encode(), partition=0)
    assert producer.flush(SECONDS_MAX) == 0
    yield name
    admin.delete_topics([name])[name].result(SECONDS_MAX)


@pytest.fixture
def shortened(topic: str, admin: AdminClient) -> str:
    """The same, without its first REMOVED records."""
    until = TopicPartition(topic, 0, REMOVED)
    (removed,) = admin.delete_records([until]).values()
    assert removed.result(SECONDS_MAX).low_watermark == REMOVED
    return topic


def read_again(settings: Settings, first: int, end: int) -> list[tuple[int, bytes | None]]:
    return [
        record for records in change_topic.read_again(settings, first, end) for record in records
    ]


def test_the_topics_end_is_asked_for_again_over_one_connection(
    change_capture: Settings, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = []
    consumer = change_topic.consumer
    monkeypatch.setattr(
        change_topic, "consumer", lambda settings: opened.append(consumer(settings)) or opened[-1]
    )
    end = change_topic.ChangeTopicEnd(change_capture)
    assert end.offset() == RECORDS
    producer = Producer(client(change_capture, KafkaUser.ADMIN))
    producer.produce(topic, b"one more", partition=0)
    assert producer.flush(SECONDS_MAX) == 0
    assert end.offset() == RECORDS + 1
    assert len(opened) == 1
    opened[0].close()


@pytest.mark.usefixtures("topic")
def test_a_stretch_is_read_again_without_its_end(change_capture: Settings) -> None:
    assert read_again(change_capture, 3, 6) == [(3, b"3"), (4, b"4"), (5, b"5")]
    assert len(read_again(change_capture, 0, RECORDS)) == RECORDS
    assert read_again(change_capture, 6, 6) == []


@pytest.mark.usefixtures("shortened")
def test_a_stretch_whose_beginning_was_removed_is_not_read_from_where_the_topic_begins(
    change_capture: Settings,
) -> None:
    with pytest.raises(StreamError, match=r"does not let .* be read"):
        read_again(change_capture, REMOVED - 1, RECORDS)
    assert read_again(change_capture, REMOVED, REMOVED + 1) == [(REMOVED, b"5")]


@pytest.mark.usefixtures("shortened")
def test_a_first_start_is_refused_by_a_topic_that_lost_its_beginning(
    change_capture: Settings,
) -> None:
    with pytest.raises(TopicIncompleteError, match=f"begins at offset {REMOVED} only"):
        identity.require_complete_topic(change_capture)


@pytest.mark.spark
@pytest.mark.usefixtures("shortened")
def test_a_query_whose_next_record_was_removed_fails(
    change_capture: Settings, spark: "SparkSession", tmp_path: Path
) -> None:
    records = change_topic.stream(
        spark, change_capture, first_offset=REMOVED - 1, records_max=RECORDS
    )
    query = (
        records.writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    with pytest.raises(Exception, match=f"(?s)offset.*{REMOVED - 1}|data may have been lost"):
        query.awaitTermination(SECONDS_MAX)
