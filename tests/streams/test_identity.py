"""A start compares what the stream belongs to with what is there, and says by name what is not."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from lockstep.errors import LockstepError, StreamError
from lockstep.model.modes import HISTORY, StreamMode
from lockstep.settings import Settings
from lockstep.sinks.append_log import capture_id_of
from lockstep.sources.delta import open_table
from lockstep.sources.errors import PostgresUnavailableError
from lockstep.sources.side_snapshots import (
    SideSnapshots,
    side_snapshots_path,
    side_snapshots_text,
)
from lockstep.streams import identity
from lockstep.streams.capture_watch import CaptureWatch
from lockstep.streams.errors import (
    OtherDatabaseError,
    PublicationChangedError,
    SlotLostError,
    SlotRecreatedError,
    StreamIdentityMissingError,
    TopicIncompleteError,
    TopicRecreatedError,
    TopicUnknownError,
)
from lockstep.streams.identity import (
    JOINED_WITH_HISTORY,
    claim,
    identity_path,
)
from lockstep.streams.modes import Modes
from pizzeria.names import CAPTURED_TABLES, SOURCE_HISTORY

from tests.streams.conftest import MODE, WHOLE, Services, write_orders
from tests.streams.topics import open_log

CHANGES = [
    ({"has_slot": False}, SlotLostError),
    ({"wal_status": "lost"}, SlotLostError),
    ({"invalidation_reason": "wal_removed"}, SlotLostError),
    ({"has_mark": False}, SlotRecreatedError),
    ({"topic_id": "second"}, TopicRecreatedError),
    ({"topic_id": None}, TopicRecreatedError),
    ({"database_system": 8}, OtherDatabaseError),
    ({"database_name": "pizzeria_copy"}, OtherDatabaseError),
]


@pytest.fixture
def stream(home: Settings, services: Services) -> Settings:
    """A stream that has worked, and is stopped."""
    open_log(home, MODE)
    claim(home, MODE)
    write_orders(home, range(3), frontier=110)
    return home


def test_a_start_finds_what_the_first_one_remembered(stream: Settings) -> None:
    assert claim(stream, MODE) == claim(stream, MODE)


def test_every_commit_of_a_change_log_says_which_capture_it_is_of(stream: Settings) -> None:
    log = open_log(stream, MODE).uri
    assert capture_id_of(open_table(log)) is None  # as a version of before has left it
    capture_id = claim(stream, MODE).capture_id
    Modes.of(stream).sink_of(None, MODE, capture_id).write([], 120, 6, 0)
    assert capture_id_of(open_table(log)) == capture_id


@pytest.mark.parametrize(
    "change", [{"topic_id": "second"}, {"database_system": 8}, {"database_name": "pizzeria_copy"}]
)
def test_another_topic_or_database_is_another_capture(services: Services, change: dict) -> None:
    first = services.capture(None).capture_id
    services.change(**change)
    assert services.capture(None).capture_id != first
    services.change()
    assert services.capture(None).capture_id == first


@pytest.mark.parametrize(("change", "error"), CHANGES)
def test_what_is_gone_or_another_one_stops_a_start_by_name(
    stream: Settings, services: Services, change: dict, error: type[LockstepError]
) -> None:
    services.change(**change)
    with pytest.raises(error, match="lockstep capture reset"):
        claim(stream, MODE)
    assert not error.restart_helps


@pytest.mark.parametrize(("change", "error"), CHANGES)
def test_a_running_stream_fails_with_the_same_error(
    stream: Settings, services: Services, change: dict, error: type[LockstepError]
) -> None:
    watch = CaptureWatch(stream)
    watch.follow(MODE, claim(stream, MODE))
    watch.look()
    assert watch.failure(MODE) is None
    services.change(**change)
    watch.look()
    assert isinstance(watch.failure(MODE), error)
    assert isinstance(watch.cause_of(MODE, RuntimeError("the query ended")), error)
    watch.forget(MODE)
    assert watch.failure(MODE) is None


def test_a_service_that_is_silent_is_no_evidence(stream: Settings, services: Services) -> None:
    watch = CaptureWatch(stream)
    watch.follow(MODE, claim(stream, MODE))
    services.say = PostgresUnavailableError("no answer")
    watch.look()
    assert watch.failure(MODE) is None
    with pytest.raises(PostgresUnavailableError):
        claim(stream, MODE)
    assert PostgresUnavailableError.restart_helps


def remove_identity(settings: Settings) -> Path:
    identity_path(settings, MODE).unlink()
    return identity_path(settings, MODE)


def damage_identity(settings: Settings) -> Path:
    identity_path(settings, MODE).write_text('{"database_system":')
    return identity_path(settings, MODE)


def remove_table(settings: Settings) -> Path:
    shutil.rmtree(open_log(settings, MODE).uri)
    return Path(open_log(settings, MODE).uri)


@pytest.mark.parametrize("harm", [remove_identity, damage_identity, remove_table])
def test_a_part_that_is_missing_stops_a_start_by_name(
    stream: Settings, harm: Callable[[Settings], Path]
) -> None:
    lost = harm(stream)
    with pytest.raises(StreamIdentityMissingError, match="stream rebuild outbox") as raised:
        claim(stream, MODE)
    assert str(lost) in str(raised.value)
    assert not StreamIdentityMissingError.restart_helps


@pytest.mark.parametrize("mode", JOINED_WITH_HISTORY)
def test_a_history_made_again_stops_the_modes_that_join_with_it(
    home: Settings, services: Services, mode: StreamMode
) -> None:
    modes = Modes.of(home)
    modes.make_table(HISTORY)
    modes.make_table(mode)
    claim(home, mode)
    modes.sink_of(None, HISTORY, 1).write([], 110, 5, 0)
    claim(home, mode)
    uri = home.table_uri(SOURCE_HISTORY)
    shutil.rmtree(uri)
    modes.make_table(HISTORY)
    with pytest.raises(StreamIdentityMissingError, match="stream rebuild temporal") as raised:
        claim(home, mode)
    assert uri in str(raised.value)


def test_a_stream_that_has_written_nothing_misses_nothing(
    home: Settings, services: Services
) -> None:
    open_log(home, MODE)
    first = claim(home, MODE)
    identity_path(home, MODE).unlink()
    assert claim(home, MODE) == first


def test_a_first_start_wants_capture_whole(home: Settings, services: Services) -> None:
    open_log(home, MODE)
    services.incomplete = TopicIncompleteError("changes", "begins at offset 5 only")
    with pytest.raises(TopicIncompleteError):
        claim(home, MODE)
    services.incomplete = None
    services.change(topic_id=None)
    with pytest.raises(StreamError, match="lockstep up"):
        claim(home, MODE)
    assert not identity_path(home, MODE).exists()


class Broker:
    """Knows the topic from one of its answers on; the clock moves by a second with each of them."""

    def __init__(self, answers: list[str | Exception | None], clock: list[float]) -> None:
        self._answers, self._clock = answers, clock

    def topic_id(self, _settings: Settings) -> str | None:
        self._clock[0] += 1
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch, clock: list[float]) -> Callable[..., None]:
    """Makes Kafka give these answers, the last for ever; the database says that all is well."""

    def answer(*answers: str | Exception | None) -> None:
        one = Broker(list(answers), clock)
        monkeypatch.setattr(identity.change_topic, "topic_id", one.topic_id)

    monkeypatch.setattr(identity, "TOPIC_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(identity, "read_capture_state", lambda _: (WHOLE.facts, None))
    return answer


UNKNOWN_SECONDS = 20
"""A broker that takes that long to know its topics is slow, and no evidence of anything."""


def test_a_topic_that_is_unknown_for_a_while_is_waited_for(
    home: Settings, broker: Callable[..., None]
) -> None:
    broker(*[None] * UNKNOWN_SECONDS, "first")
    assert identity.read_capture(home).topic_id == "first"


def test_a_topic_that_stays_unknown_is_gone(home: Settings, broker: Callable[..., None]) -> None:
    broker(None)
    assert identity.read_capture(home).topic_id is None


def test_a_broker_that_falls_silent_while_it_is_asked_is_no_evidence(
    home: Settings, broker: Callable[..., None]
) -> None:
    broker(*[None] * UNKNOWN_SECONDS, StreamError("no answer"))
    with pytest.raises(StreamError, match="no answer"):
        identity.read_capture(home)


def test_who_may_not_wait_hears_that_nothing_is_proved(
    home: Settings, broker: Callable[..., None]
) -> None:
    broker(None)
    with pytest.raises(TopicUnknownError, match="does not prove") as raised:
        identity.read_capture(home, may_wait=False)
    assert "capture reset" not in str(raised.value)
    assert TopicUnknownError.restart_helps


MEMBERS = {f"public.{table}": 16000 + number for number, table in enumerate(CAPTURED_TABLES)}


def test_a_table_that_left_the_publication_or_came_again_is_named(
    home: Settings, services: Services
) -> None:
    """Changes of between are nowhere; tables that the mode does not read are others' business."""
    services.say = replace(WHOLE, members=MEMBERS | {"public.other": 1})
    open_log(home, MODE)
    claimed = claim(home, MODE)
    assert claimed.members == MEMBERS
    services.say = replace(WHOLE, members=MEMBERS)
    claim(home, MODE)
    watch = CaptureWatch(home)
    watch.follow(MODE, claimed)
    for members, what in (
        ({name: one for name, one in MEMBERS.items() if name != "public.clients"}, "is not in it"),
        (MEMBERS | {"public.clients": 17000}, "added again"),
    ):
        services.say = replace(WHOLE, members=members)
        with pytest.raises(PublicationChangedError, match=f"public.clients .*{what}"):
            claim(home, MODE)
        watch.look()
        assert isinstance(watch.failure(MODE), PublicationChangedError)


def test_a_stream_of_before_remembers_the_publication_at_its_next_start(
    stream: Settings, services: Services
) -> None:
    assert claim(stream, MODE).members == {}
    services.say = replace(WHOLE, members=MEMBERS)
    assert claim(stream, MODE).members == MEMBERS == claim(stream, MODE).members


def test_a_stream_does_not_begin_when_the_publication_has_changed_since_the_capture(
    home: Settings, services: Services
) -> None:
    path = side_snapshots_path(home, "pizzeria")
    path.parent.mkdir(parents=True)
    captured = SideSnapshots("pizzeria", first=tuple(MEMBERS), members=MEMBERS)
    path.write_text(side_snapshots_text(captured))
    services.say = replace(WHOLE, members=MEMBERS | {"public.orders": 17000})
    open_log(home, MODE)
    with pytest.raises(PublicationChangedError, match=r"public\.orders .*added again"):
        claim(home, MODE)


def test_a_stream_over_a_table_that_is_not_published_does_not_start(
    home: Settings, services: Services
) -> None:
    services.say = replace(WHOLE, members={})
    open_log(home, MODE)
    with pytest.raises(PublicationChangedError, match="source capture pizzeria"):
        claim(home, MODE)
