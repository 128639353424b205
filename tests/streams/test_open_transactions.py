"""The state store's rule: a transaction's records wait for its END; none is left behind."""

import copy
import json
import random
from collections.abc import Sequence

import pyarrow as pa
import pytest
from lockstep.cdc.records import Begin, Change, End, Record
from lockstep.cdc.transactions import TransactionTracker
from lockstep.streams import open_transactions
from lockstep.streams.open_transactions import PASSING, OpenTransactions, unpacked
from pizzeria.names import ORDERS
from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from tests.cdc.histories import COMMITS, change, delivered, end, placed

PACKED = pa.schema({"records": pa.binary()})


class Store:
    """The processor on an in-memory store, one micro-batch at a time, as Spark calls it."""

    def __init__(self) -> None:
        self.tester = TwsTester(OpenTransactions())

    def micro_batch(self, records: Sequence[Record]) -> list[int]:
        """The offsets that go on to the driver."""
        offsets = [record.offset for record in records]
        return [offset for offset, _ in self.passed(offsets, list(map(_value, records)))]

    def passed(
        self, offsets: list[int], values: list[bytes | None]
    ) -> list[tuple[int, bytes | None]]:
        """The records that go on to the driver, in the order of their offsets."""
        pack = Row(partition=0, offsets=offsets, values=values)
        given = [row.asDict() for row in self.tester.test((0,), [pack])]
        records = unpacked(pa.Table.from_pylist(given, PACKED)).sort_by("offset")
        return list(zip(*records.to_pydict().values(), strict=True))

    def held(self) -> list[int]:
        chunks = self.tester.peekMapState("held", (0,))
        return [row[0] for _, (records,) in sorted(chunks.items()) for row in records]

    def count(self, tx: int) -> int | None:
        known = self.tester.peekMapState("open", (0,)).get((str(tx),))
        return None if known is None else known[0]


def _value(record: Record) -> bytes:
    """The event of which the record is the decoded form, as far as the store looks at it."""
    if isinstance(record, Change):
        place = {"total_order": record.total_order}
        event = {"op": "c", "source": {"txId": record.tx}, "transaction": place}
    elif isinstance(record, End):
        count = sum(record.counts.values())
        event = {"status": "END", "id": f"{record.tx}:{record.offset}", "event_count": count}
    else:
        event = {"status": "BEGIN", "id": f"{record.tx}:0"}
    return json.dumps(event).encode()


def whole(tx: int = 7, changes: int = 3) -> list[Record]:
    body = [change(tx, number + 1) for number in range(changes)]
    return placed([Begin(0, tx), *body, end(tx, 50, orders=changes)])


def test_a_transaction_whole_in_one_micro_batch_leaves_no_state() -> None:
    store = Store()
    assert store.micro_batch(whole()) == [0, 1, 2, 3, 4]
    assert (store.held(), store.count(7)) == ([], None)


def test_an_open_transaction_is_kept_and_only_its_first_record_goes_on() -> None:
    store, records = Store(), whole()
    assert store.micro_batch(records[:2]) == [0]
    assert store.micro_batch(records[2:4]) == []
    assert store.held() == [0, 1, 2, 3]
    assert store.micro_batch(records[4:]) == [0, 1, 2, 3, 4]
    assert (store.held(), store.count(7)) == ([], None)


def test_what_comes_after_its_end_goes_on_at_once_until_the_transaction_is_there_again() -> None:
    store, records = Store(), whole()
    assert store.micro_batch([*records[:2], records[4]]) == [0, 1, 4]
    assert store.count(7) == PASSING
    assert store.micro_batch(records[2:4]) == [2, 3]
    assert store.micro_batch(records) == [0, 1, 2, 3, 4]
    assert store.count(7) is None


def test_a_transaction_too_large_to_keep_goes_on_as_it_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(open_transactions, "HELD_RECORDS_MAX", 3)
    store, records = Store(), whole(changes=6)
    assert store.micro_batch(records[:3]) == [0]
    assert store.micro_batch(records[3:5]) == [0, 1, 2, 3, 4]
    assert store.micro_batch(records[5:]) == [5, 6, 7]
    assert store.held() == []


def test_a_second_begin_drops_what_is_held_of_its_transaction() -> None:
    """Its changes are sent again from the first on, maybe with other numbers."""
    body = [Begin(0, 7), change(7, 1), change(7, 2)]
    records = placed([*body, *body[:2], end(7, 50, orders=1)])
    store = Store()
    assert store.micro_batch(records[:3]) == [0]
    assert store.micro_batch(records[3:4]) == [3]
    assert store.held() == [3]
    assert store.micro_batch(records[4:]) == [3, 4, 5]
    assert (store.held(), store.count(7)) == ([], None)


def test_an_end_before_a_second_begin_goes_on() -> None:
    """It keeps transactions behind it from being released before their turn."""
    body = [Begin(0, 7), change(7, 1)]
    records = placed([body[0], end(7, 50, orders=1), *body, end(7, 50, orders=1)])
    store = Store()
    assert store.micro_batch(records[:4]) == [1, 2]
    assert store.micro_batch(records[4:]) == [2, 3, 4]


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"{broken",
        b'{"op": "c", "source": {"txId": "seven"}}',
        b'{"op": "r", "source": {"txId": 7}, "transaction": null}',
        b'{"op": "c", "source": {}}',
    ],
)
def test_what_belongs_to_no_transaction_or_cannot_be_read_goes_on_at_once(
    value: bytes | None,
) -> None:
    store = Store()
    assert store.passed([0], [value]) == [(0, value)]
    assert store.tester.peekMapState("open", (0,)) == {}


def test_a_batch_without_records_gives_none() -> None:
    assert Store().passed([], []) == []


@pytest.mark.parametrize("seed", range(40))
def test_the_driver_releases_the_same_whatever_is_held_back_and_replayed(seed: int) -> None:
    """Random deliveries in random micro-batches; crashes before and after a micro-batch counts."""
    rng = random.Random(seed)
    topic = delivered(rng)
    store, follower, at = Store(), _tracker(0, 0), 0
    released: list[int] = []
    is_first = True
    while at < len(topic):
        before, stop = copy.deepcopy(store.tester.handle), at + rng.randint(1, 9)
        offsets = store.micro_batch(topic[at:stop])
        if is_first and offsets:  # as the runner does: read again from what the table says
            released += _feed(follower, topic[follower.next_offset : offsets[-1] + 1])
            is_first = False
        released += _feed(follower, [topic[offset] for offset in offsets])
        crash = rng.random()
        if crash < 0.4:  # the table has what was released, Spark has the micro-batch or not
            follower = _tracker(released[-1] if released else 0, follower.resume_offset)
            is_first = True
        if crash < 0.2:
            _restore(store, before)
        else:
            at = stop
    assert released == COMMITS, f"seed {seed}"


def _tracker(frontier: int, next_offset: int) -> TransactionTracker:
    return TransactionTracker(
        wanted={ORDERS}, frontier=frontier, next_offset=next_offset, xid_near=1000, held_back=True
    )


def _feed(follower: TransactionTracker, records: Sequence[Record]) -> list[int]:
    found = follower.feed(records)
    for transaction in found:
        numbers = [one.total_order for one in transaction.changes]
        assert numbers == list(range(1, len(numbers) + 1))
    return [transaction.commit_lsn for transaction in found]


def _restore(store: Store, before: object) -> None:
    for kind in ("map_states",):
        for name, state in getattr(store.tester.handle, kind).items():
            state.state = getattr(before, kind)[name].state
