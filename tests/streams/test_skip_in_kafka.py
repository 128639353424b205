"""Records given up in a real topic: a stream that runs passes them; another topic has its own."""

from collections.abc import Iterator
from functools import partial
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from lockstep.accounts import KafkaUser
from lockstep.capture.topic_rights import grant_reading
from lockstep.cdc.errors import PoisonedRecordError
from lockstep.cdc.transactions import OffsetRange
from lockstep.errors import StreamError
from lockstep.kafka_login import client
from lockstep.model.modes import StreamMode
from lockstep.pipeline import names
from lockstep.pipeline.pipeline_names import PipelineNames
from lockstep.settings import Settings
from lockstep.sources import change_topic
from lockstep.sources.given_up import given_up_ranges
from lockstep.streams.given_up import GivenUp
from lockstep.streams.skip import skip_records
from lockstep.waiting import wait_until
from pizzeria.names import OUTBOX

from tests.streams import debezium
from tests.streams.topics import DECODER, change_log, follower_of

pytestmark = pytest.mark.services

SECONDS_MAX = 60


class Topic:
    """A topic of the test's own in the change topic's place."""

    def __init__(self, settings: Settings, name: str) -> None:
        self._name = name
        self._producer = Producer(client(settings, KafkaUser.ADMIN))
        self._admin = AdminClient(client(settings, KafkaUser.ADMIN))

    def create(self) -> None:
        self._admin.create_topics([NewTopic(self._name, 1, 1)])[self._name].result(SECONDS_MAX)

    def delete(self) -> None:
        self._admin.delete_topics([self._name])[self._name].result(SECONDS_MAX)

    def add(self, *values: bytes) -> None:
        for value in values:
            self._producer.produce(self._name, value, partition=0)
        assert self._producer.flush(SECONDS_MAX) == 0


@pytest.fixture
def topic(change_capture: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Topic]:
    source = f"skipped{uuid4().hex}"
    name = names.change_topic(source)
    monkeypatch.setattr(PipelineNames, "change_topic", name)
    monkeypatch.setattr(PipelineNames, "quarantine", names.quarantine_path(source))
    topic = Topic(change_capture, name)
    topic.create()
    grant_reading(change_capture, name)
    yield topic
    topic.delete()


def records_of(settings: Settings) -> list[tuple[int, bytes | None]]:
    end = change_topic.end_offset(settings)
    return [record for part in change_topic.read_again(settings, 0, end) for record in part]


def wait_until_topic(settings: Settings, *, is_there: bool) -> None:
    """Kafka says that a topic is made, or deleted, before all that it answers from knows it."""

    def is_known() -> bool:
        try:
            return (change_topic.topic_id(settings) is not None) == is_there
        except StreamError:
            return False

    assert wait_until(is_known, SECONDS_MAX, 0.1)


def given_up_of(settings: Settings) -> GivenUp:
    """What is given up in these settings' quarantine."""
    return GivenUp(partial(given_up_ranges, settings), DECODER)


def test_a_stream_that_runs_passes_what_is_given_up_and_a_new_topic_has_nothing_given_up(
    change_capture: Settings, topic: Topic, home: Settings
) -> None:
    settings = change_capture.model_copy(update={"lakehouse": home.lakehouse})
    elsewhere = change_capture.model_copy(update={"lakehouse": f"{home.lakehouse}-elsewhere"})
    renamed = [debezium.transaction(tx, (OUTBOX, {"id": tx, "renamed": 1})) for tx in (2, 3)]
    topic.add(*debezium.SNAPSHOT, *debezium.order(1))
    topic.add(*renamed[0], b"{broken", *renamed[1], *debezium.order(4))
    runs = follower_of(
        None,
        settings,
        StreamMode.OUTBOX,
        given_up=given_up_of(settings),
    )
    stops = follower_of(
        None,
        elsewhere,
        StreamMode.OUTBOX,
        given_up=given_up_of(settings),
    )
    with pytest.raises(PoisonedRecordError) as stopped:
        stops.follow(records_of(settings))
    lost = skip_records(settings, stopped.value.offset, None)
    assert [(one.table, one.records, one.transaction_count) for one in lost] == [
        (OUTBOX, 2, 2),
        (None, 1, 0),  # between two transactions
    ]
    assert given_up_ranges(settings) == [OffsetRange(6, 10)]
    runs.follow(records_of(settings))
    assert change_log(settings, StreamMode.OUTBOX) == [1, 4]

    topic.delete()
    wait_until_topic(settings, is_there=False)
    topic.create()
    wait_until_topic(settings, is_there=True)
    assert given_up_ranges(settings) == []
