"""A stream: what a crash between commits leaves to do, its pauses, records that cannot be read."""

import itertools
import json
from collections.abc import Callable, Sequence

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from lockstep.cdc import transactions
from lockstep.cdc.errors import PoisonedRecordError
from lockstep.cdc.transactions import OffsetRange
from lockstep.faults import Point
from lockstep.model.modes import StreamMode
from lockstep.settings import Settings
from lockstep.sinks.append_log import Reached
from lockstep.streams import large, reader_runner
from lockstep.streams import sink as sinking
from lockstep.streams import writer as writing
from lockstep.streams.follower import Follower
from lockstep.streams.given_up import GivenUp
from lockstep.streams.source_reader import SourceReader
from lockstep.streams.subscription import Subscription
from pizzeria.names import OUTBOX, QUARANTINED_RECORDS

from tests.cdc.histories import placed
from tests.streams.debezium import SNAPSHOT, order
from tests.streams.debezium import transaction as transaction_of
from tests.streams.topics import (
    DECODER,
    EMPTY_SNAPSHOT,
    PLAN,
    ReadHere,
    RowChange,
    change_log,
    follow,
    follower_of,
    serve,
    topic_of,
    transaction,
)
from tests.streams.topics import (
    published as row_of,
)

SECONDS_MAX = 10
BROKEN = b"{"
Look = Callable[[], Sequence[OffsetRange]]
"""The stretches that are given up."""


class CrashError(Exception):
    """Ends the stream between two commits."""


def crash_at_commit(monkeypatch: pytest.MonkeyPatch, one: Follower, number: int) -> None:
    commits = itertools.count(1)

    def until_crash(commit):
        def counted(*given):
            if next(commits) == number:
                raise CrashError
            return commit(*given)

        return counted

    for name in ("write", "write_large"):
        sink = one.writer.sink
        monkeypatch.setattr(sink, name, until_crash(getattr(sink, name)))


def die_at(monkeypatch: pytest.MonkeyPatch, point: Point) -> None:
    """The stream ends at this fault point, as its process would."""

    def reach(reached: Point) -> None:
        if reached == point:
            raise CrashError

    monkeypatch.setattr(sinking, "reach", reach)


def created(order_id: int) -> RowChange:
    return OUTBOX, "c", row_of(order_id, "c", "Anna", "T1", [(None, None)])


@pytest.mark.parametrize(("crash_at", "first_written"), [(2, [1]), (3, [1, 2, 3])])
@pytest.mark.parametrize("held_max", [1_000, 1])
def test_what_a_crash_between_two_commits_left_is_written_once_by_the_next_runner(
    home: Settings,
    monkeypatch: pytest.MonkeyPatch,
    held_max: int,
    crash_at: int,
    first_written: list[int],
) -> None:
    """Three transactions of one micro-batch, the second one too large for memory or not."""
    monkeypatch.setattr(transactions, "HELD_CHANGES_MAX", held_max)
    monkeypatch.setattr(writing, "WRITTEN_TOGETHER_MAX", 0)
    topic = topic_of([created(1)], [created(2), created(3)], [created(4)])
    serve(monkeypatch, topic)
    one = follower_of(None, home, StreamMode.OUTBOX)
    crash_at_commit(monkeypatch, one, crash_at)
    with pytest.raises(CrashError):
        follow(one, topic)
    assert change_log(home, StreamMode.OUTBOX) == first_written
    follow(follower_of(None, home, StreamMode.OUTBOX), topic)
    assert change_log(home, StreamMode.OUTBOX) == [1, 2, 3, 4]


@pytest.mark.parametrize("held_max", [1_000, 1])
def test_a_crash_loses_no_later_transaction_whose_records_came_before_those_of_the_written(
    home: Settings, monkeypatch: pytest.MonkeyPatch, held_max: int
) -> None:
    """Both are released by one record, each is a commit; held_max: both are large, or none is."""
    monkeypatch.setattr(transactions, "HELD_CHANGES_MAX", held_max)
    monkeypatch.setattr(writing, "WRITTEN_TOGETHER_MAX", 0)
    first, last_of_first, first_end = transaction(1, [created(1), created(2)], start=0)
    *later, later_end = transaction(2, [created(3), created(4)], start=0)
    records = [*EMPTY_SNAPSHOT, *later, first, first_end, later_end, last_of_first]
    topic = placed(records)
    serve(monkeypatch, topic)
    with monkeypatch.context() as killed:
        die_at(killed, Point.AFTER_CHANGE_LOG)
        with pytest.raises(CrashError):
            follow(follower_of(None, home, StreamMode.OUTBOX), topic)
    assert change_log(home, StreamMode.OUTBOX) == [1, 2]
    again = follower_of(None, home, StreamMode.OUTBOX)
    follow(again, topic[again.tracker.next_offset :])
    assert change_log(home, StreamMode.OUTBOX) == [1, 2, 3, 4]


def broken_row(order_id: int) -> list[bytes]:
    """An order whose outbox row cannot be read; its envelope can."""
    return transaction_of(order_id, (OUTBOX, {"id": order_id, "payload": "{"}))


def follow_all(home: Settings, values: list[bytes], look: Look) -> None:
    follower_of(None, home, StreamMode.OUTBOX, GivenUp(look, DECODER)).follow(
        list(enumerate(values))
    )


def read_all(home: Settings, values: list[bytes], look: Look) -> None:
    one = ReadHere(None, home, StreamMode.OUTBOX, look)
    one.take(values[one.next_offset :])


@pytest.mark.parametrize("run", [follow_all, read_all])
@pytest.mark.parametrize("broken", [[BROKEN], broken_row(5)], ids=["envelope", "row"])
def test_a_record_that_cannot_be_read_stops_the_stream_after_what_precedes_it(
    home: Settings, broken: list[bytes], run: Callable[[Settings, list[bytes], Look], None]
) -> None:
    values = [*SNAPSHOT, *order(1), *broken, *order(6)]
    place = len(SNAPSHOT) + len(order(1)) + len(broken) // 2
    with pytest.raises(PoisonedRecordError) as refused:
        run(home, values, list)
    assert refused.value.offset == place
    assert change_log(home, StreamMode.OUTBOX) == [1]
    run(home, values, lambda: [OffsetRange(place, place)])
    assert change_log(home, StreamMode.OUTBOX) == [1, 6]
    assert not DeltaTable.is_deltatable(home.table_uri(QUARANTINED_RECORDS))


@pytest.mark.parametrize("run", [follow_all, read_all])
def test_a_change_of_a_table_that_is_not_known_counts_and_its_transaction_goes_on(
    home: Settings, run: Callable[[Settings, list[bytes], Look], None]
) -> None:
    run(home, [*SNAPSHOT, *order(1, "suppliers"), *order(2)], list)
    assert change_log(home, StreamMode.OUTBOX) == [1, 2]


@pytest.mark.parametrize("run", [follow_all, read_all])
def test_a_stream_that_runs_passes_a_record_that_is_given_up_meanwhile(
    home: Settings, run: Callable[[Settings, list[bytes], Look], None]
) -> None:
    values = [*SNAPSHOT, *order(1), BROKEN, *order(2), BROKEN, *order(3)]
    first, second = (at for at, value in enumerate(values) if value == BROKEN)
    looks = iter([[]])  # nothing at the start
    with pytest.raises(PoisonedRecordError) as refused:
        run(home, values, lambda: next(looks, [OffsetRange(first, first)]))
    assert refused.value.offset == second
    assert change_log(home, StreamMode.OUTBOX) == [1, 2]


def test_what_comes_twice_is_written_once_also_when_both_wait_together(home: Settings) -> None:
    """As when a stream goes over to the reader ahead."""
    one = ReadHere(None, home, StreamMode.OUTBOX)
    values = [*SNAPSHOT, *order(1), *order(2), *order(3)]
    ahead = SourceReader(one.readers, Subscription(one.runner.position), Reached(None, 0))
    ahead.streams = [one.runner._stream]
    last_of_first = len(SNAPSHOT) + 2 * len(order(1))
    one.reader._take(list(enumerate(values[:last_of_first])))
    ahead._take(list(enumerate(values)))
    one.take([])
    assert change_log(home, StreamMode.OUTBOX) == [1, 2, 3]


def test_a_stream_gets_on_while_its_reader_follows_a_transaction_that_has_not_ended(
    home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of millions of records; supervision would call it stalled after five minutes."""
    monkeypatch.setattr(reader_runner, "IDLE_SECONDS", 0.0)
    one = ReadHere(None, home, StreamMode.OUTBOX)
    begin, change, end = order(1)
    one.take([*SNAPSHOT, begin])
    seen = [one.runner.progress.last_progress_at]
    for values in ([change], [], [end]):
        one.take(values)
        seen.append(one.runner.progress.last_progress_at)
    first, moved, still, ended = seen
    assert first < moved == still < ended


MESSAGE_OUTSIDE = json.dumps(
    {
        "op": "m",
        "source": {"table": "", "ts_us": 1},
        "message": {"prefix": PLAN.message_prefix, "content": "e30="},
    }
).encode()


def test_a_rows_message_outside_of_transactions_stops_the_stream_that_reads_messages_alone(
    home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = [*SNAPSHOT, *order(1), MESSAGE_OUTSIDE, *order(2)]
    outside = values.index(MESSAGE_OUTSIDE)
    for _ in range(2):  # a restart meets it again
        one = ReadHere(None, home, StreamMode.MESSAGE)
        with pytest.raises(PoisonedRecordError, match="outside its transaction"):
            one.take(values[one.next_offset :])
    again = ReadHere(None, home, StreamMode.MESSAGE, lambda: [OffsetRange(outside, outside)])
    monkeypatch.setattr(writing, "QUIET_COMMIT_SECONDS", 0.0)
    again.take(values[again.next_offset :])
    assert again.runner.reached.frontier == 20
    ReadHere(None, home, StreamMode.OUTBOX).take(values)
    assert change_log(home, StreamMode.OUTBOX) == [1, 2]


def test_a_large_transaction_of_other_tables_is_not_read_again(
    home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader keeps the changes of all tables, so that it is too large for any stream."""
    monkeypatch.setattr(transactions, "HELD_CHANGES_MAX", 1)

    def read_again(*_: object) -> None:
        raise AssertionError("read again")

    monkeypatch.setattr(large, "read_again", read_again)
    of_others = transaction_of(2, *[("suppliers", {"id": number}) for number in range(5)])
    ReadHere(None, home, StreamMode.OUTBOX).take([*SNAPSHOT, *order(1), *of_others, *order(3)])
    assert change_log(home, StreamMode.OUTBOX) == [1, 3]


@pytest.mark.parametrize(
    ("write_seconds", "neighbours", "pause_seconds"),
    [(0.01, 0, 1 / 30 - 0.01), (0.1, 0, 0.0), (0.1, 4, 0.3), (360.0, 4, 1.0)],
)
def test_a_stream_pauses_for_its_neighbours_but_not_for_long(
    home: Settings, write_seconds: float, neighbours: int, pause_seconds: float
) -> None:
    runner = ReadHere(None, home, StreamMode.OUTBOX).runner
    runner.progress.write_seconds, runner.neighbours = write_seconds, neighbours
    assert runner._pause_seconds() == pytest.approx(pause_seconds)


def test_a_stop_ends_between_two_commits_and_loses_nothing(
    home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "WRITTEN_TOGETHER_MAX", 0)
    one = ReadHere(None, home, StreamMode.OUTBOX)
    write = one.runner._sink.write

    def stopped_meanwhile(*given: object) -> pa.Table:
        one.runner._stopping.set()
        return write(*given)

    monkeypatch.setattr(one.runner._sink, "write", stopped_meanwhile)
    values = [*SNAPSHOT, *order(1), *order(2), *order(3)]
    one.take(values)
    assert change_log(home, StreamMode.OUTBOX) == [1]
    again = ReadHere(None, home, StreamMode.OUTBOX)
    again.take(values[again.next_offset :])
    assert change_log(home, StreamMode.OUTBOX) == [1, 2, 3]
