"""A stretch of a topic read again while the broker goes away: none of it is lost, nor waited for
without an end."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError
from lockstep.errors import StreamError
from lockstep.settings import Settings
from lockstep.sources import change_topic

AWAY, ALL_AWAY = KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN


class Message:
    """A record, or an error by its code."""

    def __init__(self, offset: int, error: int | None = None) -> None:
        self._offset, self._error = offset, error

    def error(self) -> KafkaError | None:
        return None if self._error is None else KafkaError(self._error)

    def offset(self) -> int:
        return self._offset

    def value(self) -> bytes:
        return b"value %d" % self._offset


class Client:
    """In place of Kafka's: gives these messages, one after the other, then none."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = list(messages)

    def assign(self, _: object) -> None:
        pass

    def consume(self, *_: object, **__: object) -> list[Message]:
        return [self._messages.pop(0)] if self._messages else []

    def position(self, _: object) -> list[SimpleNamespace]:
        return [SimpleNamespace(offset=0)]


@pytest.fixture
def home(tmp_path: object) -> Settings:
    return Settings(home=tmp_path)


def serve(monkeypatch: pytest.MonkeyPatch, messages: Sequence[Message]) -> None:
    @contextmanager
    def reading(*_: object, **__: object) -> Iterator[Client]:
        yield Client(messages)

    monkeypatch.setattr(change_topic, "_reading", reading)


def test_a_broker_that_goes_away_and_comes_back_gives_the_rest(
    home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = [Message(-1, AWAY), Message(-1, ALL_AWAY)]
    serve(monkeypatch, [gone[0], Message(3), *gone, Message(4), Message(5)])
    found = [one for stretch in change_topic.read_again(home, 3, 6) for one in stretch]
    assert found == [(3, b"value 3"), (4, b"value 4"), (5, b"value 5")]


def test_a_broker_that_stays_away_is_not_waited_for_without_an_end(
    home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_topic, "QUIET_SECONDS_MAX", 0.0)
    serve(monkeypatch, [Message(3), Message(-1, AWAY)])
    with pytest.raises(StreamError, match="did not give offsets 3 to 6"):
        list(change_topic.read_again(home, 3, 6))
