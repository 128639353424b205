"""The state store's rule: a transaction's records wait for its END; none is left behind."""

import copy
import random
from collections.abc import Iterable, Sequence

import pytest
from lockstep.cdc.records import Begin, Change, End, Record
from lockstep.cdc.transactions import TransactionTracker
from lockstep.contracts import ORDERS
from lockstep.streams import open_transactions
from lockstep.streams.open_transactions import PASSING, OpenTransactions
from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from tests.cdc.histories import COMMITS, change, delivered, end, placed


class Store:
    """The processor on an in-memory store, one micro-batch at a time, as Spark calls it."""

    def __init__(self) -> None:
        self.tester = TwsTester(OpenTransactions())

    def micro_batch(self, records: Iterable[Record]) -> list[int]:
        """The offsets that go on to the driver."""
        rows = self.tester.test((0,), [_row(record) for record in records])
        return sorted(row["offset"] for row in rows)

    def held(self) -> list[int]:
        chunks = self.tester.peekMapState("held", (0,))
        return [row[0] for _, (records,) in sorted(chunks.items()) for row in records]

    def count(self, tx: int) -> int | None:
        known = self.tester.peekMapState("open", (0,)).get((str(tx),))
        return None if known is None else known[0]


def _row(record: Record) -> Row:
    return Row(
        offset=record.offset,
        value=b"",
        tx=str(record.tx),
        total_order=record.total_order if isinstance(record, Change) else None,
        expected=sum(record.counts.values()) if isinstance(record, End) else None,
    )


def whole(tx: int = 7, changes: int = 3) -> list[Record]:
    body = [change(tx, number + 1) for number in range(changes)]
    return placed([Begin(0, tx), *body, end(tx, 50, orders=changes)])


def test_a_transaction_whole_in_one_micro_batch_leaves_no_state() -> None:
    store = Store()
    assert store.micro_batch(whole()) == [0, 1, 2, 3, 4]
    assert (store.held(), store.count(7)) == ([], None)


def test_an_open_transaction_is_kept_and_only_its_first_record_is_told_of() -> None:
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
