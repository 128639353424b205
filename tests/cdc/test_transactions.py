"""The tracker: whole transactions, in commit order, once, whatever comes twice or out of place."""

import random
from collections import Counter

import pytest
from lockstep.cdc import transactions
from lockstep.cdc.errors import SnapshotRepeatedError
from lockstep.cdc.records import MESSAGES, Begin, Record, Skipped, SnapshotNotice
from lockstep.cdc.transactions import TRUNCATE, Transaction, TransactionTracker
from pizzeria.names import CLIENTS, ORDERS, OUTBOX, TABLES

from tests.cdc.histories import COMMITS, change, delivered, end, interleaved, placed

WANTED = frozenset({ORDERS, CLIENTS})


def tracker(frontier: int | None = 0, next_offset: int = 0, **options) -> TransactionTracker:
    given = {"wanted": WANTED, "xid_near": 1000, **options}
    return TransactionTracker(frontier=frontier, next_offset=next_offset, **given)


def commits(released: list[Transaction]) -> list[int]:
    return [transaction.commit_lsn for transaction in released]


def test_a_transaction_is_released_when_its_end_and_all_changes_are_there() -> None:
    follower = tracker()
    records = placed(
        [Begin(0, 7), change(7, 1), change(7, 2, OUTBOX), end(7, 50, orders=1, orders_outbox=1)]
    )
    assert follower.feed(records[:3]) == []
    assert follower.resume_offset == 0
    (released,) = follower.feed(records[3:])
    assert [c.total_order for c in released.changes] == [1]
    assert (released.tx_id, released.commit_lsn, released.change_count) == (7, 50, 2)
    assert (follower.frontier, follower.resume_offset) == (50, 4)


def test_an_end_before_its_changes_waits_for_them() -> None:
    follower = tracker()
    assert follower.feed(placed([end(7, 50, orders=2), change(7, 2)])) == []
    (waiting,) = follower.incomplete()
    assert (waiting.changes_seen, waiting.changes_expected, waiting.missing) == (1, 2, {ORDERS: 1})
    (released,) = follower.feed(placed([change(7, 1)], start=2))
    assert [c.total_order for c in released.changes] == [1, 2]
    assert follower.incomplete() == []


def test_nothing_behind_an_incomplete_transaction_is_released() -> None:
    follower = tracker()
    records = placed([change(7, 1), end(7, 50, orders=2), change(8, 1), end(8, 60, orders=1)])
    assert follower.feed(records) == []
    assert commits(follower.feed(placed([change(7, 2)], start=4))) == [50, 60]


def test_what_is_held_can_be_asked_for_while_records_come_in() -> None:
    follower = tracker()
    follower.feed(placed([change(7, 1), change(8, 1)]))

    class FedMeanwhile:
        """Of a transaction during whose count another one begins, as the feeding thread may."""

        @property
        def changes(self) -> list:
            follower._pending[9] = follower._pending[8]
            return [1, 2]

    follower._pending[7] = FedMeanwhile()
    assert follower.held_changes == 3


def test_a_transaction_without_its_end_is_reported_once_another_has_ended() -> None:
    follower = tracker()
    follower.feed(placed([Begin(0, 7), change(7, 1)]))
    assert follower.incomplete() == []
    assert commits(follower.feed(placed([change(8, 1), end(8, 60, orders=1)], start=2))) == [60]
    (waiting,) = follower.incomplete()
    assert (waiting.changes_seen, waiting.changes_expected) == (1, None)
    assert waiting.missing == {"END": 1}
    assert follower.resume_offset == 0  # it is read again after a restart, and told of again


def test_a_change_that_comes_twice_counts_once() -> None:
    follower = tracker()
    records = placed([change(7, 1), change(7, 1), end(7, 50, orders=2)])
    assert follower.feed(records) == []


def test_what_comes_again_after_its_release_is_ignored() -> None:
    follower = tracker()
    once = [Begin(0, 7), change(7, 1), end(7, 50, orders=1)]
    assert commits(follower.feed(placed(once * 3))) == [50]
    assert follower.resume_offset == 9


def test_after_a_restart_what_comes_again_is_ignored_by_its_end() -> None:
    follower = tracker(frontier=50, next_offset=3)
    assert follower.feed(placed([change(7, 1), end(7, 50, orders=1)], start=3)) == []
    assert follower.resume_offset == 5


def test_offsets_dealt_with_are_ignored() -> None:
    follower = tracker(next_offset=2)
    assert follower.feed(placed([change(7, 1), end(7, 50, orders=1)])) == []
    assert follower.incomplete() == []


def test_messages_count() -> None:
    follower = tracker()
    records = placed([change(7, 1), end(7, 50, orders=1, messages=1)])
    assert follower.feed(records) == []
    assert commits(follower.feed(placed([change(7, 2, MESSAGES, "m")], start=2))) == [50]


def test_a_truncate_is_kept_whatever_its_table() -> None:
    follower = tracker(wanted={OUTBOX})
    records = [change(7, 1), change(7, 2, op=TRUNCATE), end(7, 50, orders=2)]
    (released,) = follower.feed(placed(records))
    assert [(c.table, c.op) for c in released.changes] == [(ORDERS, TRUNCATE)]


def test_a_lowered_count_of_a_restarted_connector_does_not_hold_what_was_seen_whole() -> None:
    follower = tracker()
    seen = [change(7, n) for n in (1, 2, 3)]
    assert commits(follower.feed(placed([*seen, end(7, 50, orders=1)]))) == [50]


def test_the_snapshot_is_one_transaction_before_all_others() -> None:
    follower = tracker(frontier=None)
    rows = placed([SnapshotNotice(0, "STARTED"), change(None, 1, op="r"), change(None, 2, op="r")])
    assert follower.feed(rows) == []
    assert follower.resume_offset == 0
    (snapshot,) = follower.feed(placed([SnapshotNotice(0, "COMPLETED")], start=3))
    assert (snapshot.tx_id, snapshot.commit_lsn, len(snapshot.changes)) == (None, 0, 2)
    assert follower.frontier == 0


def test_what_was_written_up_to_the_snapshot_can_be_gone_on_with() -> None:
    """Its STARTED, read again behind a frontier, would be a second snapshot."""
    records = placed(
        [
            SnapshotNotice(0, "STARTED"),
            change(None, 1, op="r"),
            SnapshotNotice(0, "COMPLETED"),
            change(7, 1),
            end(7, 50, orders=1),
        ]
    )
    snapshot, _ = tracker(frontier=None).feed(records)
    again = tracker(frontier=snapshot.commit_lsn, next_offset=snapshot.offsets.first)
    assert commits(again.feed(records)) == [50]


def test_rows_of_an_unfinished_snapshot_are_discarded() -> None:
    follower = tracker(frontier=None)
    records = [
        SnapshotNotice(0, "STARTED"),
        change(None, 1, op="r"),
        SnapshotNotice(0, "STARTED"),
        change(None, 3, op="r"),
        SnapshotNotice(0, "COMPLETED"),
    ]
    (snapshot,) = follower.feed(placed(records))
    assert len(snapshot.changes) == 1


def test_an_empty_snapshot_starts_the_frontier() -> None:
    follower = tracker(frontier=None)
    follower.feed(placed([SnapshotNotice(0, "STARTED"), SnapshotNotice(0, "COMPLETED")]))
    assert follower.frontier == 0


def test_a_second_snapshot_stops_the_stream() -> None:
    with pytest.raises(SnapshotRepeatedError, match="offset 5"):
        tracker(frontier=9, next_offset=5).feed(placed([SnapshotNotice(0, "STARTED")], start=5))


def test_a_record_given_up_of_which_nothing_can_be_read_stands_for_one_missing_change() -> None:
    given_up = Skipped(0, None)
    before = [given_up, Begin(0, 7), change(7, 1)]
    within = [Begin(0, 7), change(7, 1), given_up]
    assert tracker().feed(placed([*before, end(7, 50, orders=2)])) == []
    assert tracker().feed(placed([*within, end(7, 50, orders=3)])) == []
    assert commits(tracker().feed(placed([*within, end(7, 50, orders=2)]))) == [50]


def test_a_record_given_up_that_says_its_place_stands_for_itself_and_comes_twice() -> None:
    given_up = Skipped(0, change(7, 2))
    records = [Begin(0, 7), change(7, 1), given_up, given_up]
    assert tracker().feed(placed([*records, end(7, 50, orders=3)])) == []
    (released,) = tracker().feed(placed([*records, end(7, 50, orders=2)]))
    assert [one.total_order for one in released.changes] == [1]
    assert released.change_count == 2


def test_a_record_given_up_that_was_held_back_counts_when_it_comes() -> None:
    follower = tracker(held_back=True)
    whole = [Begin(0, 7), change(7, 1), Skipped(0, change(7, 2)), end(7, 50, orders=2)]
    begin, *rest = placed(whole)
    assert follower.feed([begin, *placed([Begin(0, 8)], start=10)]) == []
    assert commits(follower.feed(rest)) == [50]


def test_a_transaction_too_large_to_hold_is_named_by_its_offsets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transactions, "HELD_CHANGES_MAX", 3)
    follower = tracker()
    records = placed([Begin(0, 7), *(change(7, n) for n in range(1, 6)), end(7, 50, orders=5)])
    (released,) = follower.feed(records)
    assert released.changes is None
    assert (released.offsets.first, released.offsets.last, released.change_count) == (0, 5, 5)


@pytest.mark.parametrize(
    ("near", "tx", "wide"),
    [
        (1000, 7, 7),
        (2**32 + 5, 3, 2**32 + 3),
        (2**32 + 5, 2**32 - 1, 2**32 - 1),
        (2**33 - 2, 1, 2**33 + 1),
        (3 * 2**30, 100, 100),
        (5, 2**32 - 1, 2**32 - 1),
    ],
)
def test_a_transaction_id_is_widened_to_one_around(near: int, tx: int, wide: int) -> None:
    assert tracker(xid_near=near).widened(tx) == wide


def test_transaction_ids_are_widened_by_those_before_them() -> None:
    """A stream that runs through more than half of all 32-bit ids does not fall back by 2**32."""
    one = tracker(frontier=0, xid_near=100)
    ids = [2**30, 2**31, 3 * 2**30, 2**32 - 5, 5]
    found = [
        transaction.tx_id
        for place, tx in enumerate(ids, start=1)
        for transaction in one.feed(placed([change(tx, 1), end(tx, place, orders=1)], 2 * place))
    ]
    assert found == [2**30, 2**31, 3 * 2**30, 2**32 - 5, 2**32 + 5]


def test_a_topic_read_again_from_long_ago_gives_the_ids_that_were() -> None:
    one = tracker(frontier=0, xid_near=3_000_000_000)
    ids = [100, 900_000_000, 2_999_999_000, 3_000_000_100]
    found = [
        transaction.tx_id
        for place, tx in enumerate(ids, start=1)
        for transaction in one.feed(placed([change(tx, 1), end(tx, place, orders=1)], 2 * place))
    ]
    assert found == ids


@pytest.mark.parametrize("seed", range(40))
def test_any_replay_and_disorder_gives_each_transaction_once_and_in_order(seed: int) -> None:
    """A random history, delivered in stretches that go back; restarted at random from what a
    table would hold: frontier and resume offset."""
    rng = random.Random(seed)
    topic = delivered(rng)

    follower, released, position = tracker(), [], 0
    while position < len(topic):
        position += rng.randint(1, 9)
        released += follower.feed(topic[follower.next_offset : position])
        if rng.random() < 0.3:
            follower = tracker(frontier=follower.frontier, next_offset=follower.resume_offset)
    released += follower.feed(topic[follower.next_offset :])
    assert commits(released) == COMMITS, f"seed {seed}"
    for transaction in released:
        orders = [c.total_order for c in transaction.changes]
        assert orders == list(range(1, len(orders) + 1)), f"seed {seed}"


@pytest.mark.parametrize("seed", range(40))
def test_a_crash_between_two_commits_of_what_was_released_together_loses_nothing(
    seed: int,
) -> None:
    """First records lie in any order; each transaction is a commit, after which a crash may come.

    What a table holds is the frontier and the offset of its last commit, and nothing else.
    """
    rng = random.Random(seed)
    topic = interleaved(rng)
    follower, written, crashes = tracker(), [], 0
    while follower.next_offset < len(topic):
        until = follower.next_offset + rng.randint(1, 12)
        released = follower.feed(topic[follower.next_offset : until])
        for one, resume_offset in zip(released, follower.resume_offsets(released), strict=True):
            written.append(one.commit_lsn)
            if one is not released[-1] and rng.random() < 0.3:
                crashes += 1
                follower = tracker(frontier=one.commit_lsn, next_offset=resume_offset)
                break
    assert crashes, f"seed {seed}"
    assert written == COMMITS, f"seed {seed}"


def test_a_second_begin_starts_a_transaction_from_the_beginning() -> None:
    """A connector that captures other tables since counts its changes otherwise."""
    first = [Begin(0, 7), change(7, 1, CLIENTS), change(7, 2), change(7, 3, CLIENTS)]
    again = [Begin(0, 7), change(7, 1), change(7, 2), end(7, 70, orders=2)]
    (whole,) = tracker().feed(placed([*first, *again]))
    assert [(one.table, one.total_order) for one in whole.changes] == [(ORDERS, 1), (ORDERS, 2)]
    assert (whole.offsets.first, whole.change_count) == (4, 2)


def test_a_begin_that_is_read_again_starts_nothing_again() -> None:
    follower = tracker(held_back=True)
    records = placed([Begin(0, 7), change(7, 1), change(7, 2), end(7, 70, orders=2)])
    assert follower.feed(records[:2]) == []
    assert commits(follower.feed([records[0], *records[2:]])) == [70]


def test_what_lies_before_the_last_begin_and_comes_late_does_not_count() -> None:
    first = [Begin(0, 7), change(7, 1, CLIENTS), change(7, 2, CLIENTS)]
    again = [Begin(0, 7), change(7, 1), end(7, 70, orders=1, clients=1), change(7, 2, CLIENTS)]
    records = placed([*first, *again])
    follower = tracker(held_back=True)
    assert follower.feed([*records[3:6], *records[:3]]) == []
    assert commits(follower.feed(records[6:])) == [70]


def test_a_transaction_that_starts_again_after_its_end_still_holds_the_others_back() -> None:
    """Records of it were lost; the transactions behind it were sent already."""
    lost = [Begin(0, 7), end(7, 70, orders=2, clients=1)]
    behind = [Begin(0, 8), change(8, 1), end(8, 80, orders=1)]
    follower = tracker()
    records = placed([*lost, *behind, Begin(0, 7), change(7, 1), end(7, 70, orders=1), *behind])
    assert follower.feed(records[:6]) == []
    assert commits(follower.feed(records[6:])) == [70, 80]


@pytest.mark.parametrize("seed", range(20))
def test_connectors_restarted_with_other_tables_give_each_transaction_as_it_was_sent_last(
    seed: int,
) -> None:
    rng = random.Random(seed)
    records: list[Record] = []
    expected: list[list[str]] = []
    for tx in range(1, 15):
        for is_last in (*[False] * rng.randint(0, 2), True):
            captured = rng.sample((ORDERS, CLIENTS, TABLES), rng.randint(1, 3))
            tables = rng.choices(captured, k=rng.randint(1, 6))
            sent = [Begin(0, tx), *(change(tx, n, table) for n, table in enumerate(tables, 1))]
            records += sent if is_last else sent[: rng.randint(1, len(sent))]
        records.append(end(tx, tx * 10, **Counter(tables)))
        expected.append(tables)
    records, released, at = placed(records), [], 0
    follower = tracker(wanted={ORDERS, CLIENTS, TABLES})
    while at < len(records):
        step = rng.randint(1, 9)
        released += follower.feed(records[at : at + step])
        at += step
        if rng.random() < 0.3:  # a driver goes on where its table says
            frontier = released[-1].commit_lsn if released else 0
            at = min(at, follower.resume_offset)
            follower = tracker(frontier, at, wanted={ORDERS, CLIENTS, TABLES})
    assert [[one.table for one in whole.changes] for whole in released] == expected, f"seed {seed}"
