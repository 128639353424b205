"""A topic counts as gone when Kafka keeps saying so, and as another one by its id."""

import re
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace
from uuid import uuid4

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from lockstep.accounts import KafkaUser
from lockstep.capture.topic_rights import grant_reading
from lockstep.devstack import control
from lockstep.errors import StreamError
from lockstep.kafka_login import client
from lockstep.pipeline.pipeline_names import PipelineNames
from lockstep.settings import Settings
from lockstep.sources import change_topic
from lockstep.streams import identity
from lockstep.streams.errors import TopicRecreatedError, TopicUnknownError
from lockstep.streams.identity import StreamIdentity, compare, read_capture
from lockstep_tools.soak.connector_restarts import kill
from pizzeria.names import CHANGE_TOPIC

from tests.e2e.conftest import stack_of_its_own
from tests.streams.conftest import WHOLE

SECONDS_MAX = 60
GONE_SECONDS = 3.0


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """A broker of the tests' own: one of them kills it."""
    with stack_of_its_own(tmp_path_factory.mktemp("kafka"), ["kafka"]) as settings:
        yield settings


@pytest.fixture(scope="module")
def admin(kafka: Settings) -> AdminClient:
    return AdminClient(client(kafka, KafkaUser.ADMIN))


def create(admin: AdminClient, name: str) -> None:
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(SECONDS_MAX)


def delete(admin: AdminClient, name: str) -> None:
    admin.delete_topics([name])[name].result(SECONDS_MAX)


@pytest.fixture
def topic(kafka: Settings, admin: AdminClient, monkeypatch: pytest.MonkeyPatch) -> str:
    """A new topic in the change topic's place; the database says that all is well."""
    name = f"change-topic-{uuid4().hex}"
    monkeypatch.setattr(PipelineNames, "change_topic", name)
    monkeypatch.setattr(identity, "read_capture_state", lambda _: (WHOLE.facts, None))
    create(admin, name)
    grant_reading(kafka, name)
    return name


@pytest.fixture
def own(kafka: Settings, topic: str) -> StreamIdentity:
    """Of a stream that reads the topic as it is now."""
    facts, topic_id = read_capture(kafka).facts, read_capture(kafka).topic_id
    return StreamIdentity(facts.database_system, facts.database_name, "slot", topic_id, "table")


def topic_id_when_known(settings: Settings) -> str | None:
    """What Kafka says once it answers without a doubt."""
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        try:
            return read_capture(settings).topic_id
        except StreamError:
            assert time.monotonic() < deadline


@pytest.mark.services
def test_a_broker_that_is_killed_and_comes_back_is_no_evidence(
    kafka: Settings, own: StreamIdentity
) -> None:
    kill(kafka, "kafka")
    with ThreadPoolExecutor(1) as pool:
        back = pool.submit(control.up, kafka, ["kafka"])
        found = [topic_id_when_known(kafka)]
        while not back.done():
            found.append(topic_id_when_known(kafka))
    back.result()
    assert {*found, read_capture(kafka).topic_id} == {own.topic_id}


@pytest.mark.services
def test_a_deleted_topic_is_gone_once_kafka_has_said_so_for_a_while(
    kafka: Settings,
    admin: AdminClient,
    topic: str,
    own: StreamIdentity,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(identity, "TOPIC_GONE_SECONDS", GONE_SECONDS)
    delete(admin, topic)
    with pytest.raises(TopicUnknownError, match="does not prove"):
        read_capture(kafka, may_wait=False)
    asked = time.monotonic()
    capture = read_capture(kafka)
    assert time.monotonic() - asked >= GONE_SECONDS
    with pytest.raises(TopicRecreatedError, match=r"now there is none.*lockstep capture reset"):
        compare(kafka, "outbox", own, capture)


@pytest.mark.services
def test_a_recreated_topic_is_another_one_by_its_id(
    kafka: Settings, admin: AdminClient, topic: str, own: StreamIdentity
) -> None:
    compare(kafka, "outbox", own, read_capture(kafka))
    delete(admin, topic)
    create(admin, topic)
    capture = read_capture(kafka)
    with pytest.raises(TopicRecreatedError, match=re.escape(own.topic_id)) as raised:
        compare(kafka, "outbox", own, capture)
    assert capture.topic_id in str(raised.value)


class ForgetfulBroker:
    """Does not describe the topic; what it lists, and whether it has a controller, differs."""

    def __init__(self, *, topics: dict, controller_id: int) -> None:
        self._listing = SimpleNamespace(
            brokers={1: None}, topics=topics, controller_id=controller_id
        )

    def describe_topics(self, asked: object, **_: object) -> dict[str, Future]:
        unknown: Future = Future()
        unknown.set_exception(KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)))
        return {CHANGE_TOPIC: unknown}

    def list_topics(self, **_: object) -> SimpleNamespace:
        return self._listing


@pytest.mark.parametrize(
    ("topics", "controller_id", "said"),
    [({CHANGE_TOPIC: None}, 1, "lists the topic"), ({}, -1, "no controller")],
)
def test_an_answer_that_another_one_contradicts_is_no_answer(
    tmp_path, monkeypatch: pytest.MonkeyPatch, topics: dict, controller_id: int, said: str
) -> None:
    broker = ForgetfulBroker(topics=topics, controller_id=controller_id)
    monkeypatch.setattr(change_topic, "AdminClient", lambda _: broker)
    with pytest.raises(StreamError, match=said):
        change_topic.topic_id(Settings(home=tmp_path, kafka_reader_password="a test"))


def test_a_topic_that_is_neither_described_nor_listed_is_unknown(
    tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = ForgetfulBroker(topics={"another": None}, controller_id=1)
    monkeypatch.setattr(change_topic, "AdminClient", lambda _: broker)
    assert change_topic.topic_id(Settings(home=tmp_path, kafka_reader_password="a test")) is None
