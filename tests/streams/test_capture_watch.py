"""The watch over what streams belong to: it neither ends nor hangs without its modes' noticing."""

import time
from collections.abc import Callable, Iterator

import pytest
from lockstep.settings import Settings
from lockstep.sources.errors import PostgresUnavailableError
from lockstep.streams import capture_watch
from lockstep.streams.capture_watch import CaptureWatch
from lockstep.streams.errors import CaptureUnwatchedError, SlotLostError, TopicUnknownError
from lockstep.streams.identity import StreamIdentity

from tests.streams.conftest import MODE, WHOLE, Services

SECONDS_MAX = 10
OWN = StreamIdentity(
    WHOLE.facts.database_system, WHOLE.facts.database_name, "slot", WHOLE.topic_id, "generation"
)


@pytest.fixture
def watch(home: Settings, services: Services) -> Iterator[CaptureWatch]:
    """Of one mode; not started."""
    one = CaptureWatch(home)
    one.follow(MODE, OWN)
    yield one
    one.end()


@pytest.fixture
def busy_watch(watch: CaptureWatch, monkeypatch: pytest.MonkeyPatch) -> CaptureWatch:
    """It looks all the time once it is started."""
    monkeypatch.setattr(capture_watch, "LOOK_SECONDS", 0.01)
    return watch


@pytest.fixture
def idle_watch(
    watch: CaptureWatch, monkeypatch: pytest.MonkeyPatch, clock: list[float]
) -> CaptureWatch:
    """Started, and looks when the test does."""
    monkeypatch.setattr(capture_watch, "LOOK_SECONDS", 3600.0)
    watch.start()
    return watch


def wait_for(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come in {SECONDS_MAX} s"
        time.sleep(0.01)


def test_a_defect_in_a_look_does_not_end_the_watch(
    busy_watch: CaptureWatch, services: Services, capfd: pytest.CaptureFixture[str]
) -> None:
    services.say = ValueError("an unexpected answer")
    busy_watch.start()
    wait_for(lambda: services.looks > 1, "a look after the one that failed")
    assert busy_watch.failure(MODE) is None
    services.change(has_slot=False)
    wait_for(lambda: busy_watch.failure(MODE), "the lost slot")
    assert isinstance(busy_watch.failure(MODE), SlotLostError)
    assert capfd.readouterr().err.count("an unexpected answer") == 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_watch_whose_thread_ended_fails_its_modes(
    busy_watch: CaptureWatch, services: Services
) -> None:
    services.say = SystemExit("whatever ends a thread")
    busy_watch.start()
    wait_for(lambda: busy_watch.failure(MODE), "the end of the watch")
    assert isinstance(busy_watch.failure(MODE), CaptureUnwatchedError)
    assert CaptureUnwatchedError.restart_helps


def test_a_watch_that_hangs_fails_its_modes(idle_watch: CaptureWatch, clock: list[float]) -> None:
    clock[0] += capture_watch.UNWATCHED_SECONDS_MAX - 1
    assert idle_watch.failure(MODE) is None
    clock[0] += 1
    with pytest.raises(CaptureUnwatchedError, match=r"300 s .*a look does not end"):
        raise idle_watch.failure(MODE)
    idle_watch.look()
    assert idle_watch.failure(MODE) is None


def test_a_defect_that_lasts_fails_the_modes_by_its_name(
    idle_watch: CaptureWatch, services: Services, clock: list[float]
) -> None:
    services.say = ValueError("an unexpected answer")
    for _ in range(3):
        clock[0] += capture_watch.UNWATCHED_SECONDS_MAX / 3
        idle_watch.look()
    with pytest.raises(CaptureUnwatchedError, match="ValueError: an unexpected answer"):
        raise idle_watch.failure(MODE)


def test_services_that_are_away_for_long_fail_no_mode(
    idle_watch: CaptureWatch, services: Services, clock: list[float]
) -> None:
    services.say = PostgresUnavailableError("no answer")
    for _ in range(10):
        clock[0] += capture_watch.UNWATCHED_SECONDS_MAX / 3
        idle_watch.look()
        assert idle_watch.failure(MODE) is None


def test_a_defect_while_a_cause_is_looked_for_leaves_the_failure_as_it_is(
    watch: CaptureWatch, services: Services
) -> None:
    services.say = ValueError("an unexpected answer")
    failure = RuntimeError("the query ended")
    assert watch.cause_of(MODE, failure) is failure


def test_a_query_that_ends_while_kafka_does_not_know_the_topic_is_not_given_up(
    watch: CaptureWatch, services: Services
) -> None:
    services.say = TopicUnknownError("changes", "127.0.0.1:1", 30)
    watch.look()
    assert watch.failure(MODE) is None
    cause = watch.cause_of(MODE, RuntimeError("the query ended"))
    assert isinstance(cause, TopicUnknownError)
    assert TopicUnknownError.restart_helps


def test_what_connect_answers_does_not_keep_the_watch_from_looking(
    watch: CaptureWatch, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_json(*_: object) -> bool:
        raise ValueError("<html> is no JSON")

    monkeypatch.setattr(capture_watch.connector, "clear_mark", no_json)
    services.change(has_slot=False)
    watch.look()
    assert isinstance(watch.failure(MODE), SlotLostError)


def test_an_ended_watch_fails_nothing(busy_watch: CaptureWatch) -> None:
    busy_watch.start()
    busy_watch.end()
    wait_for(lambda: not busy_watch._thread.is_alive(), "the end of the thread")
    assert busy_watch.failure(MODE) is None
