"""Only records that cannot be read are given up, and once; what they belonged to is noted."""

import json
from collections.abc import Iterator
from datetime import UTC
from functools import partial

import pytest
from deltalake import DeltaTable
from lockstep.cdc.errors import PoisonedRecordError
from lockstep.cdc.transactions import OffsetRange
from lockstep.errors import StreamError
from lockstep.model.modes import StreamMode
from lockstep.settings import Settings
from lockstep.sources import given_up as room
from lockstep.sources.delta import open_table
from lockstep.sources.given_up import given_up_ranges
from lockstep.streams import skip
from lockstep.streams.given_up import GivenUp
from lockstep.streams.skip import skip_records
from pizzeria.names import CLIENTS, ORDERS, OUTBOX, QUARANTINED_RECORDS, TABLES

from tests.streams import debezium
from tests.streams.debezium import NOON, SNAPSHOT
from tests.streams.topics import DECODER, change_log, follower_of

BROKEN = b"{broken"
MIXED = [b'{"status":"BEGIN","id":"7:70"}', None, BROKEN, None, b'{"op":"c"}']
READABLE, TOMBSTONE, _, NO_RECORD, WITHOUT_SOURCE, END = range(6)
AT_BROKEN = 2


class Topic(dict[int, bytes | None]):
    """A change topic: its records by offset. `add` gives the offset of the first one added."""

    def add(self, *values: bytes | None) -> int:
        first = max(self, default=-1) + 1
        self.update(enumerate(values, first))
        return first


@pytest.fixture(autouse=True)
def topic(monkeypatch: pytest.MonkeyPatch) -> Topic:
    """An empty topic, read in slices as they come from Kafka."""
    records = Topic()

    def read_again(_: Settings, first: int, end: int) -> Iterator[list]:
        found = [(offset, records[offset]) for offset in range(first, end) if offset in records]
        yield []
        yield from (found[at : at + 3] for at in range(0, len(found), 3))

    monkeypatch.setattr(skip, "end_offset", lambda _: max(records) + 1)
    monkeypatch.setattr(skip, "first_offset", lambda _: 0)
    monkeypatch.setattr(skip, "read_again", read_again)
    monkeypatch.setattr(skip, "current_xid", lambda _: 2**32 + 1000)
    monkeypatch.setattr(room, "topic_id", lambda *_: "first")
    return records


@pytest.fixture
def mixed(topic: Topic) -> Topic:
    topic.add(*MIXED)
    del topic[NO_RECORD]
    return topic


def renamed(tx: int, table: str = OUTBOX, **row: object) -> list[bytes]:
    """A transaction of one change, whose columns have other names since a migration."""
    return debezium.transaction(tx, (table, {"id": tx, "renamed": "x", **row}))


@pytest.mark.parametrize(
    ("offset", "reason"),
    [(AT_BROKEN, "malformed"), (WITHOUT_SOURCE, "a change without `source`")],
)
def test_a_record_that_cannot_be_read_is_given_up_with_its_reason(
    home: Settings, mixed: Topic, offset: int, reason: str
) -> None:
    (lost,) = skip_records(home, offset, offset)
    assert reason in lost.reason
    assert given_up_ranges(home) == [OffsetRange(offset, offset)]
    (row,) = open_table(home.table_uri(QUARANTINED_RECORDS)).to_pyarrow_table().to_pylist()
    assert (row["stream"], row["value"]) == ("operator", mixed[offset].decode())
    assert reason in row["reason"]


@pytest.mark.parametrize(
    ("first", "last", "why"),
    [
        (READABLE, READABLE, "nothing to give up at offset 0 .*can be read"),
        (READABLE, TOMBSTONE, "nothing to give up from 0 to 1 .*can be read"),
        (TOMBSTONE, TOMBSTONE, "nothing to give up at offset 1 .*can be read"),
        (NO_RECORD, NO_RECORD, "nothing to give up at offset 3"),
        (END, END, f"no offset {END}; it ends before {END}"),
        (END, None, f"no offsets {END} to .*; it ends before {END}"),
        (AT_BROKEN, END, f"no offsets 2 to {END}; it ends before {END}"),
        (AT_BROKEN, READABLE, "no offsets 2 to 0"),
        (-1, -1, "has no offset -1"),
    ],
)
@pytest.mark.usefixtures("mixed")
def test_any_other_offsets_are_refused_and_nothing_is_written(
    home: Settings, first: int, last: int | None, why: str
) -> None:
    with pytest.raises(StreamError, match=why):
        skip_records(home, first, last)
    assert not DeltaTable.is_deltatable(home.table_uri(QUARANTINED_RECORDS))


@pytest.mark.usefixtures("mixed")
def test_a_record_is_given_up_once(home: Settings) -> None:
    skip_records(home, AT_BROKEN, AT_BROKEN)
    with pytest.raises(StreamError, match="given up already"):
        skip_records(home, AT_BROKEN, AT_BROKEN)
    assert open_table(home.table_uri(QUARANTINED_RECORDS)).count() == 1
    (rest,) = skip_records(home, READABLE, None)
    assert (rest.offsets, rest.records) == (OffsetRange(WITHOUT_SOURCE, WITHOUT_SOURCE), 1)


def given_up_of(settings: Settings) -> GivenUp:
    """What is given up in these settings' quarantine."""
    return GivenUp(partial(given_up_ranges, settings), DECODER)


def test_a_stream_that_runs_passes_the_stretch_after_a_renamed_column(
    home: Settings, topic: Topic
) -> None:
    topic.add(*SNAPSHOT, *debezium.order(1))
    first = topic.add(*renamed(2), *renamed(3), *debezium.order(4), *renamed(5))
    topic.add(*debezium.order(6))
    runs = follower_of(None, home, StreamMode.OUTBOX, given_up=given_up_of(home))
    skip_records(home, first, None)
    runs.follow(list(topic.items()))
    assert change_log(home, StreamMode.OUTBOX) == [1, 4, 6]
    assert runs.writer.sink.reached.frontier == 60


def test_a_stream_stops_at_what_is_behind_the_stretch(home: Settings, topic: Topic) -> None:
    topic.add(*SNAPSHOT)
    first = topic.add(*renamed(2))
    topic.add(*debezium.order(3))
    behind = topic.add(*renamed(4))
    skip_records(home, first, behind - 1)
    runs = follower_of(None, home, StreamMode.OUTBOX, given_up=given_up_of(home))
    with pytest.raises(PoisonedRecordError) as stopped:
        runs.follow(list(topic.items()))
    assert stopped.value.offset == behind + 1  # after its BEGIN
    assert change_log(home, StreamMode.OUTBOX) == [3]


def test_the_transactions_of_what_is_given_up_are_noted_by_table_and_hour(
    home: Settings, topic: Topic
) -> None:
    earlier = NOON.replace(hour=9).isoformat()
    topic.add(*SNAPSHOT, *debezium.order(1))
    first = topic.add(*renamed(2), *renamed(3))
    client = topic.add(*renamed(4, CLIENTS), *debezium.order(5))
    order = topic.add(*renamed(6, ORDERS, order_time=earlier))
    topic.add(*debezium.order(7))
    outbox, clients, orders = skip_records(home, first, max(topic))

    def ids(one: room.GivenUpRecords) -> list[tuple]:
        return [(each.tx_id, each.commit_lsn, each.committed_at) for each in one.transactions]

    at, hour = debezium.committed_at, NOON.replace(minute=0)
    assert ids(outbox) == [(2**32 + 2, 20, at(2)), (2**32 + 3, 30, at(3))]
    assert (outbox.table, outbox.records, outbox.transaction_count) == (OUTBOX, 2, 2)
    assert (outbox.hour, outbox.is_order_hour) == (hour, False)
    assert (outbox.committed_first, outbox.committed_last) == (at(2), at(3))
    assert outbox.offsets == OffsetRange(first + 1, first + 4)
    assert (clients.table, ids(clients)) == (CLIENTS, [(2**32 + 4, 40, at(4))])
    assert clients.offsets == OffsetRange(client + 1, client + 1)
    assert (orders.table, orders.offsets) == (ORDERS, OffsetRange(order + 1, order + 1))
    assert (orders.hour, orders.is_order_hour) == (NOON.replace(hour=9, minute=0), True)
    assert room.given_up_records(home)[0].transactions == outbox.transactions


@pytest.mark.parametrize("place", range(3))
def test_a_record_that_says_nothing_is_of_the_transaction_around_it(
    home: Settings, topic: Topic, place: int
) -> None:
    """It takes the place of the BEGIN, of the only change, or of the END."""
    topic.add(*SNAPSHOT, *debezium.order(1))
    values = debezium.order(2)
    values[place] = BROKEN
    at = topic.add(*values) + place
    topic.add(*debezium.order(3))
    (lost,) = skip_records(home, at, at)
    assert (lost.table, lost.records, lost.offsets) == (None, 1, OffsetRange(at, at))
    (transaction,) = lost.transactions
    assert transaction.tx_id == 2**32 + 2
    assert transaction.commit_lsn == (None if place == 2 else 20)
    assert (lost.hour, lost.is_order_hour) == (NOON.replace(minute=0), False)


def test_records_of_many_transactions_are_one_row_and_the_first_transactions_are_named(
    home: Settings, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(skip.LostRecords.__module__ + ".TRANSACTIONS_KEPT", 3)
    first = topic.add(*SNAPSHOT)
    topic.add(*(value for tx in range(1, 51) for value in renamed(tx)))
    (lost,) = skip_records(home, first, None)
    assert (lost.records, lost.transaction_count) == (50, 50)
    assert [one.commit_lsn for one in lost.transactions] == [10, 20, 30]
    assert open_table(home.table_uri(QUARANTINED_RECORDS)).count() == 1


@pytest.mark.parametrize(
    ("table", "row"),
    [
        (ORDERS, {"order_time": NOON.isoformat(), "renamed": 1}),
        (OUTBOX, {"payload": json.dumps({"order_time": NOON.isoformat(), "renamed": 1})}),
    ],
)
def test_the_hour_of_an_order_is_its_own_where_the_record_says_it(
    home: Settings, topic: Topic, table: str, row: dict
) -> None:
    topic.add(*SNAPSHOT)
    first = topic.add(*debezium.transaction(9, (table, {"id": 1, **row})))
    (lost,) = skip_records(home, first, None)
    assert (lost.table, lost.hour, lost.is_order_hour) == (table, NOON.replace(minute=0), True)
    assert lost.hour.tzinfo == UTC


def test_a_record_that_only_modes_that_join_refuse_is_given_up(
    home: Settings, topic: Topic
) -> None:
    """An integer that became wider: outbox, message and lookup read no tables."""
    topic.add(*SNAPSHOT)
    first = topic.add(*debezium.transaction(9, (TABLES, {"id": 2**31, "name": "T1"})))
    (lost,) = skip_records(home, first, None)
    assert (lost.table, lost.records) == (TABLES, 1)


def test_a_large_value_left_out_is_lost_of_the_fact_alone(home: Settings, topic: Topic) -> None:
    """Of other tables it is filled from the row before, by the history and the modes that join."""
    left_out = "__debezium_unavailable_value"
    topic.add(*SNAPSHOT)
    first = topic.add(*debezium.transaction(8, (CLIENTS, {"id": 1, "name": left_out})))
    with pytest.raises(StreamError, match="nothing to give up"):
        skip_records(home, first, None)
    row = {"id": 1, "table_assignment_id": 1, "order_time": NOON.isoformat()}
    row["pizzas"] = list(left_out.encode())
    topic.add(*debezium.transaction(9, (ORDERS, row)))
    (lost,) = skip_records(home, first, None)
    assert (lost.table, lost.hour) == (ORDERS, NOON.replace(minute=0))
    assert "REPLICA IDENTITY FULL" in lost.reason
