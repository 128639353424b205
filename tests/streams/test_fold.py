"""What a transaction did to each order: one change, whatever happened to it on the way."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from lockstep.cdc.order_records import NameRow, OrderRow, PublishedOrder
from lockstep.cdc.records import Change
from lockstep.cdc.transactions import TRUNCATE, OffsetRange, Transaction
from lockstep.pizzeria import CLIENTS, ORDERS, OUTBOX
from lockstep.streams.fold import OrderChange, fold_orders

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LIVING = (1, 2)
"""Orders of before the transaction."""


def event(order_id: int, op: str) -> tuple[str, str, OrderRow]:
    return ORDERS, op, OrderRow(order_id, 1, NOON, [])


def published(order_id: int, op: str) -> tuple[str, str, PublishedOrder]:
    return OUTBOX, "c", PublishedOrder(op, order_id, NOON, None, None, [])


TRUNCATED = (ORDERS, TRUNCATE, None)


def folded(events: Sequence[tuple], told_by: str = ORDERS) -> list[OrderChange]:
    """The events as one transaction's changes; each says by its time which one it is."""
    changes = [
        Change(number, 7, number + 1, table, op, row, number, 0)
        for number, (table, op, row) in enumerate(events)
    ]
    whole = Transaction(7, 70, 0, changes, OffsetRange(0, len(changes)), len(changes))
    return fold_orders(whole, changes, told_by, lambda: LIVING)


@pytest.mark.parametrize(
    ("ops", "op"),
    [
        ("c", "c"),
        ("u", "u"),
        ("d", "d"),
        ("cu", "c"),
        ("uu", "u"),
        ("ud", "d"),
        ("cd", "d"),
        ("dc", "u"),
        ("cdc", "c"),
    ],
)
@pytest.mark.parametrize(("of", "told_by"), [(event, ORDERS), (published, OUTBOX)])
def test_an_order_has_one_change_with_its_last_state(of, told_by, ops: str, op: str) -> None:
    (change,) = folded([of(1, each) for each in ops], told_by)
    assert (change.op, change.committed_us) == (op, len(ops) - 1)
    assert (change.row is None) == (op == "d")


def test_a_row_of_the_snapshot_creates_its_order() -> None:
    (change,) = folded([event(1, "r")])
    assert change.op == "c"


def test_changes_come_in_the_order_of_first_touch() -> None:
    changes = folded([event(5, "c"), event(3, "c"), event(5, "u"), event(4, "d")])
    assert [change.order_id for change in changes] == [5, 3, 4]


def test_rows_of_other_tables_tell_nothing_of_orders() -> None:
    events = [(CLIENTS, "c", NameRow(1, "Anna")), published(1, "u"), event(2, "u")]
    assert [change.order_id for change in folded(events)] == [2]
    assert [change.order_id for change in folded(events, OUTBOX)] == [1]


@pytest.mark.parametrize(("of", "told_by"), [(event, ORDERS), (published, OUTBOX)])
def test_a_truncate_deletes_who_lived_before_it_and_no_one_after(of, told_by) -> None:
    events = [of(2, "d"), of(3, "c"), TRUNCATED, of(4, "c"), of(1, "c")]
    found = {change.order_id: change.op for change in folded(events, told_by)}
    assert found == {1: "u", 2: "d", 3: "d", 4: "c"}


def test_a_truncate_of_another_table_deletes_no_order() -> None:
    assert folded([(CLIENTS, TRUNCATE, None)]) == []
