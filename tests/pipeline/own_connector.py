"""A second Debezium connector in the stack's Connect, with tables, slot and topic of its own.

It is configured as the project's connector is, but for its names and what it captures.
"""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import psycopg
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from lockstep.accounts import KafkaUser, Role
from lockstep.capture.connectors import connector_of
from lockstep.kafka_login import client
from lockstep.settings import Settings
from msgspec import Raw, Struct
from msgspec.json import Decoder

from tests.connect_rest import ask_connect

NAME = "types_under_test"
TOPIC = f"{NAME}.changes"
SECONDS_MAX = 60.0
NOT_OF_THIS = ("snapshot.select", "snapshot.include", "notification", "heartbeat", "topic.creation")


class Source(Struct):
    table: str


class Event(Struct):
    """A change as it comes, its rows not decoded."""

    op: str | None = None
    source: Source | None = None
    before: Raw = Raw(b"null")
    after: Raw = Raw(b"null")

    @property
    def row(self) -> bytes:
        return bytes(self.before if self.op == "d" else self.after)


class OwnConnector:
    """What the connector has written, read from the beginning."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._consumer = Consumer(
            {**client(settings, KafkaUser.ADMIN), "group.id": NAME, "enable.auto.commit": False}
        )
        self._consumer.assign([TopicPartition(TOPIC, 0, 0)])
        self._decode = Decoder(Event).decode

    def until(self, is_last: Callable[[Event], bool]) -> list[Event]:
        """The changes that come, up to the first that `is_last`."""
        found: list[Event] = []
        deadline = time.monotonic() + SECONDS_MAX
        while not found or not is_last(found[-1]):
            assert time.monotonic() < deadline, f"{len(found)} changes; {status(self.settings)}"
            message = self._consumer.poll(0.2)
            if message is None or message.error() or message.value() is None:
                continue
            event = self._decode(message.value())
            found += [event] if event.op is not None else []
        return found

    def close(self) -> None:
        self._consumer.close()


@contextmanager
def own_connector(settings: Settings, tables: list[str]) -> Iterator[OwnConnector]:
    """Capture these tables (schema.table) for the block; removed without a trace at its end."""
    with psycopg.connect(**settings.connection(Role.ADMIN), autocommit=True) as admin:
        admin.execute(f"CREATE PUBLICATION {NAME} FOR TABLE {', '.join(tables)}")
        try:
            ask_connect(settings, "PUT", f"{NAME}/config", _configuration(settings, tables))
            reader = OwnConnector(settings)
            try:
                yield reader
            finally:
                reader.close()
        finally:
            _remove(settings, admin)


def status(settings: Settings) -> str:
    """What Connect says of the connector; of one that is just registered, that it has no status."""
    answer = httpx.request(
        "GET", f"{_url(settings)}/status", auth=settings.connect_auth, timeout=30
    )
    return answer.text[:1000]


def _configuration(settings: Settings, tables: list[str]) -> dict[str, str]:
    project = connector_of(settings).configuration()
    own = {
        "slot.name": NAME,
        "slot.failover": "false",
        "publication.name": NAME,
        "topic.prefix": NAME,
        "table.include.list": ",".join(table.replace(".", r"\.") for table in tables),
        "transforms.route.regex": ".*",
        "transforms.route.replacement": TOPIC,
        "topic.creation.default.partitions": "1",
        "topic.creation.default.replication.factor": "1",
    }
    return {name: text for name, text in project.items() if not name.startswith(NOT_OF_THIS)} | own


def _remove(settings: Settings, admin: psycopg.Connection) -> None:
    httpx.request("DELETE", _url(settings), auth=settings.connect_auth, timeout=30)
    deadline = time.monotonic() + SECONDS_MAX
    held = "SELECT count(*) FROM pg_replication_slots WHERE slot_name = %s AND active"
    while admin.execute(held, [NAME]).fetchone()[0] and time.monotonic() < deadline:
        time.sleep(0.1)
    admin.execute(
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s",
        [NAME],
    )
    admin.execute(f"DROP PUBLICATION {NAME}")
    kafka = AdminClient(client(settings, KafkaUser.ADMIN))  # kept until it has answered
    for deleted in kafka.delete_topics([TOPIC]).values():
        deleted.exception(SECONDS_MAX)  # a connector that failed has made none


def _url(settings: Settings) -> str:
    return f"{settings.connect_url}/connectors/{NAME}"


def of_table(events: list[Event], table: str, op: str) -> list[dict]:
    """The rows of a table's changes of one kind, as plain JSON."""
    return [
        json.loads(event.row) for event in events if (event.source.table, event.op) == (table, op)
    ]
