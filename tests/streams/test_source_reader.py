"""The source's readers: each stream gets every transaction, once read, however far it is behind.

The topic is made up and lies in memory; readers and streams run in their own threads.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random

import pytest
from lockstep.cdc.errors import PoisonedRecordError
from lockstep.cdc.records import EnvelopeDecoder
from lockstep.errors import StreamError
from lockstep.settings import Settings
from lockstep.sinks.append_log import Reached
from lockstep.streams import source_reader, subscription
from lockstep.streams.given_up import GivenUp
from lockstep.streams.source_reader import SourceReaders
from lockstep.streams.subscription import Subscription
from lockstep.waiting import wait_until

from tests.fault_rounds import seeded
from tests.streams.debezium import SNAPSHOT, order

SECONDS_MAX = 20.0
PAUSE_SECONDS = 0.002
BROKEN = b"{"
NOTHING, SNAPSHOT_ALONE = Reached(None, 0), Reached(0, len(SNAPSHOT))


class Topic:
    """Records in memory, for readers of any number. handed_out: how many they have got."""

    def __init__(self) -> None:
        self.values: list[bytes] = [*SNAPSHOT]
        self.handed_out = 0
        self.slice_max = 1_000
        self.failure: BaseException | None = None

    def add_orders(self, *numbers: int) -> None:
        for number in numbers:
            self.values += order(number)

    @contextmanager
    def reading(self, _settings: Settings, _topic: str, first: int) -> Iterator["Reading"]:
        yield Reading(self, first)


class Reading:
    def __init__(self, topic: Topic, first: int) -> None:
        self._topic, self._next = topic, first

    def records(self, most: int, _wait_seconds: float) -> list[tuple[int, bytes]]:
        topic = self._topic
        if topic.failure is not None:
            raise topic.failure
        end = self._next + min(most, topic.slice_max)
        found = list(enumerate(topic.values[self._next : end], start=self._next))
        self._next += len(found)
        topic.handed_out += len(found)
        if not found:
            time.sleep(PAUSE_SECONDS)
        return found


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Topic:
    topic = Topic()
    monkeypatch.setattr(source_reader, "topic_reading", topic.reading)
    return topic


@pytest.fixture
def readers(home: Settings, topic: Topic) -> SourceReaders:
    return SourceReaders(home, GivenUp(list, EnvelopeDecoder("changes")), xid_near=100)


class Stream:
    """Takes what comes, as a runner does, at its own pace."""

    def __init__(self, readers: SourceReaders, reached: Reached = NOTHING) -> None:
        self.commits: list[int] = []
        self.reached = reached
        self.error: BaseException | None = None
        self.is_paused = self.rests = False
        self.subscriptions = 1
        self._readers = readers
        self.queue: Subscription = readers.subscribe(reached)
        self._stopping = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping = True
        self._readers.leave(self.queue)
        self._thread.join(SECONDS_MAX)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stopping:
            self.rests = self.is_paused
            if self.rests:
                time.sleep(PAUSE_SECONDS)
                continue
            try:
                releases = self.queue.take(PAUSE_SECONDS)
            except BaseException as error:
                self.error = error
                return
            if releases is None and not self._stopping:
                self.queue = self._readers.subscribe(self.reached)
                self.subscriptions += 1
            for release in releases or ():
                for transaction, resume_offset in release.transactions:
                    frontier = self.reached.frontier
                    if frontier is None or transaction.commit_lsn > frontier:
                        self.commits.append(transaction.commit_lsn)
                        self.reached = Reached(transaction.commit_lsn, resume_offset)


def await_that(condition: Callable[[], bool]) -> None:
    assert wait_until(condition, SECONDS_MAX, PAUSE_SECONDS)


def lsns(numbers: Sequence[int]) -> list[int]:
    """Of the orders' own transactions."""
    return [10 * number for number in numbers]


def test_streams_of_one_position_have_one_reader_which_reads_each_record_once(
    readers: SourceReaders, topic: Topic
) -> None:
    streams = [Stream(readers, SNAPSHOT_ALONE) for _ in range(3)]
    topic.add_orders(*range(1, 51))
    await_that(lambda: all(len(one.commits) == 50 for one in streams))
    assert [one.commits for one in streams] == [lsns(range(1, 51))] * 3
    assert topic.handed_out == len(topic.values) - len(SNAPSHOT)
    for one in streams:
        one.stop()


def test_streams_that_start_together_have_one_reader_of_a_backlog(
    home: Settings, topic: Topic
) -> None:
    gathered = threading.Event()
    envelopes = GivenUp(list, EnvelopeDecoder("changes"))
    readers = SourceReaders(home, envelopes, xid_near=100, gathered=gathered)
    topic.add_orders(*range(1, 51))
    streams = [Stream(readers) for _ in range(3)]
    assert topic.handed_out == 0
    gathered.set()
    await_that(lambda: all(len(one.commits) == 51 for one in streams))
    assert topic.handed_out == len(topic.values)
    for one in streams:
        one.stop()


def test_a_reader_does_not_wait_for_long_for_streams_that_start_with_it(
    home: Settings, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_reader, "GATHER_SECONDS", PAUSE_SECONDS)
    envelopes = GivenUp(list, EnvelopeDecoder("changes"))
    readers = SourceReaders(home, envelopes, xid_near=100, gathered=threading.Event())
    stream = Stream(readers)
    await_that(lambda: stream.commits == [0])
    stream.stop()


def test_one_that_begins_later_reads_alone_until_it_has_caught_up(
    readers: SourceReaders, topic: Topic
) -> None:
    topic.add_orders(*range(1, 51))
    first = Stream(readers)
    await_that(lambda: len(first.commits) == 51)
    later = Stream(readers)
    await_that(lambda: readers.of(later.queue) is readers.of(first.queue))
    read = topic.handed_out
    assert read == 2 * len(topic.values)
    before = len(topic.values)
    topic.add_orders(51, 52)
    await_that(lambda: len(later.commits) == len(first.commits) == 53)
    assert later.commits == first.commits
    assert topic.handed_out == read + len(topic.values) - before
    assert later.queue.position == first.queue.position
    for one in (first, later):
        one.stop()


def test_one_that_is_ahead_of_a_reader_that_is_far_behind_does_not_wait_for_it(
    readers: SourceReaders, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_reader, "NEAR_RECORDS", 6)
    topic.add_orders(*range(1, 101))
    resume_offset = len(topic.values)
    topic.slice_max = 1
    behind = Stream(readers)
    ahead = Stream(readers, Reached(1000, resume_offset))
    topic.add_orders(101)
    await_that(lambda: ahead.commits == [1010])
    await_that(lambda: len(behind.commits) == 102)
    await_that(lambda: readers.of(behind.queue) is readers.of(ahead.queue))
    for one in (behind, ahead):
        one.stop()


def test_one_that_does_not_take_what_comes_is_left_behind_and_misses_nothing(
    readers: SourceReaders, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscription, "QUEUED_CHANGES_MAX", 10)
    monkeypatch.setattr(source_reader, "FULL_SECONDS_MAX", 0.0)
    topic.slice_max = 3
    slow, quick = Stream(readers), Stream(readers)
    slow.is_paused = True
    topic.add_orders(*range(1, 101))
    await_that(lambda: len(quick.commits) == 101)
    slow.is_paused = False
    await_that(lambda: len(slow.commits) == 101)
    assert slow.commits == quick.commits
    assert slow.subscriptions > 1
    for one in (slow, quick):
        one.stop()


class Looks:
    """In place of `time`: counts how often a reader has looked for room."""

    time_ns = staticmethod(time.time_ns)

    def __init__(self) -> None:
        self.count = 0

    def sleep(self, seconds: float) -> None:
        self.count += 1
        time.sleep(seconds)


def test_one_that_has_no_room_for_a_moment_is_waited_for_and_the_topic_is_read_once(
    readers: SourceReaders, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscription, "QUEUED_CHANGES_MAX", 10)
    monkeypatch.setattr(source_reader, "FULL_SECONDS_MAX", SECONDS_MAX)
    looks = Looks()
    monkeypatch.setattr(source_reader, "time", looks)
    topic.slice_max = 3
    slow, quick = (Stream(readers, SNAPSHOT_ALONE) for _ in range(2))
    slow.is_paused = True
    topic.add_orders(*range(1, 101))
    await_that(lambda: slow.queue.is_full and not quick.queue.is_full)
    first = looks.count
    await_that(lambda: looks.count > first + 20)
    assert slow.queue.full_seconds > 0
    slow.is_paused = False
    await_that(lambda: len(quick.commits) == len(slow.commits) == 100)
    assert slow.queue.full_seconds == 0
    assert (slow.subscriptions, topic.handed_out) == (1, len(topic.values) - len(SNAPSHOT))
    for one in (slow, quick):
        one.stop()


def test_one_alone_is_waited_for_and_a_bounded_number_of_changes_waits(
    readers: SourceReaders, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscription, "QUEUED_CHANGES_MAX", 10)
    looks = Looks()
    monkeypatch.setattr(source_reader, "time", looks)
    topic.slice_max = 3
    alone = Stream(readers)
    alone.is_paused = True
    topic.add_orders(*range(1, 101))
    await_that(lambda: alone.queue.is_full)
    read, first = topic.handed_out, looks.count
    await_that(lambda: looks.count > first + 20)
    assert topic.handed_out - read <= topic.slice_max
    alone.is_paused = False
    await_that(lambda: len(alone.commits) == 101)
    assert alone.subscriptions == 1
    alone.stop()


def test_how_far_a_stream_is_does_not_count_what_waits_for_it(
    readers: SourceReaders, topic: Topic
) -> None:
    stream = Stream(readers)
    topic.add_orders(1)
    await_that(lambda: stream.queue.position.next_offset == len(topic.values))
    stream.is_paused = True
    await_that(lambda: stream.rests)
    done = stream.queue.position
    topic.add_orders(2)
    await_that(lambda: topic.handed_out == len(topic.values))
    assert stream.queue.position == done
    stream.is_paused = False
    await_that(lambda: stream.queue.position.next_offset == len(topic.values))
    stream.stop()


def test_a_record_that_cannot_be_read_ends_all_streams_after_what_precedes_it(
    readers: SourceReaders, topic: Topic
) -> None:
    topic.add_orders(1)
    topic.values.append(BROKEN)
    topic.add_orders(2)
    streams = [Stream(readers), Stream(readers)]
    await_that(lambda: all(one.error is not None for one in streams))
    assert [one.commits for one in streams] == [[0, 10]] * 2
    assert all(isinstance(one.error, PoisonedRecordError) for one in streams)
    assert readers.of(streams[0].queue) is None


def test_what_kafka_refuses_ends_the_streams_and_the_next_one_has_a_reader_of_its_own(
    readers: SourceReaders, topic: Topic
) -> None:
    topic.failure = StreamError("no such offset")
    stream = Stream(readers)
    await_that(lambda: stream.error is topic.failure)
    topic.failure = None
    again = Stream(readers)
    await_that(lambda: again.commits == [0])
    again.stop()


def test_a_defect_of_a_reader_ends_its_streams(readers: SourceReaders, topic: Topic) -> None:
    class PanicError(BaseException):
        """As pyo3 raises for a defect of delta-rs, which is no Exception."""

    topic.failure = PanicError()
    stream = Stream(readers)
    await_that(lambda: stream.error is topic.failure)


def test_a_reader_ends_with_its_last_stream(readers: SourceReaders) -> None:
    stream = Stream(readers)
    reader = readers.of(stream.queue)
    stream.stop()
    await_that(lambda: reader.is_over)


@pytest.mark.parametrize("round_", range(5))
def test_streams_that_come_go_and_stall_at_random_miss_and_double_nothing(
    readers: SourceReaders,
    topic: Topic,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    round_: int,
) -> None:
    rng: Random = seeded(request.node.name)
    monkeypatch.setattr(subscription, "QUEUED_CHANGES_MAX", rng.randrange(1, 30))
    monkeypatch.setattr(source_reader, "NEAR_RECORDS", rng.randrange(0, 60))
    monkeypatch.setattr(source_reader, "FULL_SECONDS_MAX", rng.choice((0.0, 0.02)))
    topic.slice_max = rng.randrange(1, 20)
    streams: list[Stream] = [Stream(readers)]
    ended: list[tuple[Stream, Reached]] = []
    first_of = {id(streams[0]): NOTHING}
    number = 0
    for _ in range(150):
        grown = rng.randrange(8)
        topic.add_orders(*range(number + 1, number + grown + 1))
        number += grown
        one = rng.choice(streams)
        match rng.randrange(4):
            case 0:
                one.is_paused = not one.is_paused
            case 1 if len(streams) < 5:
                reached = one.reached
                streams.append(Stream(readers, reached))
                first_of[id(streams[-1])] = reached
            case 2 if len(streams) > 1:
                one.stop()
                streams.remove(one)
                ended.append((one, first_of[id(one)]))
        time.sleep(rng.choice([0, PAUSE_SECONDS]))
    for one in streams:
        one.is_paused = False
    await_that(lambda: all(one.reached.frontier == 10 * number for one in streams))
    await_that(lambda: len({id(readers.of(one.queue)) for one in streams}) == 1)
    for one in streams:
        one.stop()
    everything = [0, *lsns(range(1, number + 1))]
    for one, first in [*ended, *((one, first_of[id(one)]) for one in streams)]:
        after = [lsn for lsn in everything if first.frontier is None or lsn > first.frontier]
        assert one.commits == after[: len(one.commits)]
