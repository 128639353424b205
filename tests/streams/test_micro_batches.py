"""A query of Spark's: where it starts, what its stream reads by itself, and how both stop."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from lockstep.cdc.errors import PoisonedRecordError
from lockstep.errors import StreamError
from lockstep.model.modes import StreamMode
from lockstep.settings import Settings
from lockstep.sources import change_topic
from lockstep.streams import published
from lockstep.streams.follower import Follower
from lockstep.streams.micro_batches import MicroBatches, Stage
from lockstep.streams.sink import ChangeLogSink

from tests.streams.debezium import SNAPSHOT, order
from tests.streams.topics import PLAN, change_log, micro_batches_of, open_log, passing

SECONDS_MAX = 10
BROKEN = b"{"


class QueryThatBeginsAnother:
    """As Spark's: its stop waits for the stream's thread, which is about to call us once more."""

    def __init__(self, runner: MicroBatches) -> None:
        self._runner = runner
        self.refused = False

    def stop(self) -> None:
        thread = threading.Thread(target=self._begin, daemon=True)
        thread.start()
        thread.join()

    def _begin(self) -> None:
        with pytest.raises(StreamError, match="being stopped"):
            self._runner._micro_batch(None, 1)
        self.refused = True


def test_a_micro_batch_that_begins_during_a_stop_is_refused_and_waits_for_nothing(
    tmp_path: Path,
) -> None:
    settings = Settings(home=tmp_path)
    sink = ChangeLogSink(open_log(settings, StreamMode.OUTBOX), published.outbox(PLAN), PLAN.key)
    follower = Follower(settings, "outbox", sink, xid_near=1, given_up=passing())
    runner = MicroBatches(settings, follower, None, tmp_path)
    query = runner._query = QueryThatBeginsAnother(runner)
    stopping = threading.Thread(target=runner.stop, daemon=True)
    stopping.start()
    stopping.join(SECONDS_MAX)
    assert not stopping.is_alive(), "the stop waits for the micro-batch that waits for it"
    assert query.refused


class QueryOfSparks:
    """Hands the micro-batch over that was there as it started, if it has records."""

    isActive = True  # noqa: N815 - Spark's name

    def __init__(self, runner: MicroBatches, records: pa.Table) -> None:
        self._runner, self._records = runner, records
        self._thread = threading.Thread(target=self._hand_over, daemon=True)
        self._thread.start()

    def _hand_over(self) -> None:
        if self._records.num_rows:
            with suppress(StreamError):
                self._runner._micro_batch(SimpleNamespace(toArrow=lambda: self._records), 0)

    def stop(self) -> None:
        self._thread.join(SECONDS_MAX)


class Starting:
    """A stream that starts while the topic has these records; its first micro-batch has the rest.

    read: the stretch that it read by itself. begun: from where Spark reads.
    """

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, home: Settings, topic: Sequence[bytes], end: int
    ) -> None:
        self.read: list[tuple[int, int]] = []
        self.begun: list[int] = []
        monkeypatch.setattr(change_topic, "end_offset", lambda *_: end)
        monkeypatch.setattr(change_topic, "read_again", self._read_again)
        monkeypatch.setattr(MicroBatches, "_start_query", self._start_query)
        self._topic, self._end = topic, end
        stage = Stage(lambda records: records, lambda rows: rows)
        self.runner = micro_batches_of(None, home, StreamMode.OUTBOX, stage)
        self.may_read = threading.Event()

    def _read_again(
        self, _: Settings, first: int, end: int, _topic: str = ""
    ) -> Iterator[list[tuple]]:
        self.read.append((first, end))
        self.may_read.wait(SECONDS_MAX)
        yield list(enumerate(self._topic))[first:end]

    def _start_query(self, first_offset: int, _topic: str) -> None:
        self.begun.append(first_offset)
        offsets = range(self._end, len(self._topic))
        rest = pa.table({"offset": offsets, "value": self._topic[self._end :]})
        self.runner._query = QueryOfSparks(self.runner, rest)


def test_a_query_starts_at_the_topics_end_and_its_stream_reads_up_to_there(
    home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction that is under way at the start comes half by the one and half by the other."""
    begin, *kept = order(2)
    topic = [*SNAPSHOT, begin, *order(1), *kept, *order(3)]
    one = Starting(monkeypatch, home, topic, topic.index(kept[0]))
    one.runner.start()
    assert change_log(home, StreamMode.OUTBOX) == [], "the first micro-batch waits"
    one.may_read.set()
    one.runner._query.stop()
    assert one.runner.failure() is None
    assert change_log(home, StreamMode.OUTBOX) == [1, 2, 3]
    assert (one.read, one.begun) == ([(0, topic.index(kept[0]))], [topic.index(kept[0])])
    again = Starting(monkeypatch, home, topic, len(topic))
    again.may_read.set()
    again.runner.start()
    again.runner.stop()
    assert change_log(home, StreamMode.OUTBOX) == [1, 2, 3]
    assert again.read == [(len(topic), len(topic))]


def test_a_stream_that_fails_before_its_query_has_records_ends_by_that(
    home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = [*SNAPSHOT, *order(1), BROKEN, *order(2)]
    one = Starting(monkeypatch, home, topic, topic.index(BROKEN) + 1)
    one.may_read.set()
    one.runner.start()
    one.runner._query.stop()
    assert isinstance(one.runner.failure(), PoisonedRecordError)
    assert change_log(home, StreamMode.OUTBOX) == [1]


@pytest.mark.parametrize("of_spark", [order(2), []], ids=["a micro-batch waits", "none"])
def test_a_stop_ends_what_a_start_reads_and_refuses_the_micro_batch_that_waits(
    home: Settings, monkeypatch: pytest.MonkeyPatch, of_spark: list[bytes]
) -> None:
    topic = [*SNAPSHOT, *order(1), *of_spark]
    one = Starting(monkeypatch, home, topic, len(SNAPSHOT) + len(order(1)))
    one.runner.start()
    stopping = threading.Thread(target=one.runner.stop, daemon=True)
    stopping.start()
    stopping.join(0.1)
    assert stopping.is_alive(), "the stop awaits the end of the reading"
    one.may_read.set()
    stopping.join(SECONDS_MAX)
    assert not stopping.is_alive()
    assert change_log(home, StreamMode.OUTBOX) == []


def test_a_compaction_holds_no_micro_batch_up(
    home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_end, ended = threading.Event(), []
    monkeypatch.setattr(
        ChangeLogSink, "maintain", lambda _: ended.append(may_end.wait(SECONDS_MAX))
    )
    one = Starting(monkeypatch, home, [*SNAPSHOT, *order(1), *order(2)], len(SNAPSHOT))
    one.may_read.set()
    one.runner.start()
    one.runner._query.stop()
    assert change_log(home, StreamMode.OUTBOX) == [1, 2]
    assert ended == [], "the table is still being compacted"
    may_end.set()
    one.runner.stop()
    assert ended[0] is True, "a stop awaits the end of that"
