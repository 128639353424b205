"""What a transaction did to each row of a fact: one change, whatever happened to it on the way."""

from collections.abc import Sequence

import pytest
from lockstep.cdc.records import MESSAGES, Change
from lockstep.cdc.transactions import TRUNCATE, OffsetRange, Transaction
from lockstep.streams.table_rows import RowVersion, TableRow, fold_rows, followed
from pizzeria.names import CLIENTS, ORDERS, OUTBOX

LIVING = ((1, "a"), (2, "a"))
"""Rows of before the transaction, by a key of two columns."""

RowChange = tuple[str, str, TableRow | None]


def event(number: int, op: str) -> RowChange:
    return ORDERS, op, TableRow((number, "a"), None if op == "d" else ("x",))


def in_outbox(number: int, op: str) -> RowChange:
    return OUTBOX, "c", TableRow((number, "a"), None if op == "d" else ("x",), op=op)


def as_message(number: int, op: str) -> RowChange:
    return MESSAGES, "m", TableRow((number, "a"), None if op == "d" else ("x",), op=op)


TRUNCATED = (ORDERS, TRUNCATE, None)
EACH = pytest.mark.parametrize(
    ("of", "table"), [(event, ORDERS), (in_outbox, OUTBOX), (as_message, MESSAGES)]
)


def folded(events: Sequence[RowChange], table: str = ORDERS) -> list[RowVersion]:
    """The events as one transaction's changes; each says by its time which one it is."""
    changes = [
        Change(number, 7, number + 1, of, op, row, number, 0)
        for number, (of, op, row) in enumerate(events)
    ]
    whole = Transaction(7, 70, 0, changes, OffsetRange(0, len(changes)), len(changes))
    return fold_rows(whole, followed(changes, {table}, ORDERS), lambda _: LIVING)


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
@EACH
def test_a_row_has_one_change_with_its_last_state(of, table, ops: str, op: str) -> None:
    (change,) = folded([of(1, each) for each in ops], table)
    assert (change.op, change.committed_us) == (op, len(ops) - 1)
    assert (change.row.values is None) == (op == "d")


def test_a_row_of_the_snapshot_is_created() -> None:
    (change,) = folded([event(1, "r")])
    assert change.op == "c"


def test_changes_come_in_the_order_of_first_touch() -> None:
    changes = folded([event(5, "c"), event(3, "c"), event(5, "u"), event(4, "d")])
    assert [change.row.key for change in changes] == [(5, "a"), (3, "a"), (4, "a")]


def test_rows_of_other_tables_say_nothing_of_the_fact() -> None:
    client = TableRow((1, "a"), ("Anna",))
    events = [(CLIENTS, "c", client), in_outbox(1, "u"), event(2, "u")]
    assert [change.row.key[0] for change in folded(events)] == [2]
    assert [change.row.key[0] for change in folded(events, OUTBOX)] == [1]


@EACH
def test_a_truncate_deletes_who_lived_before_it_and_no_one_after(of, table) -> None:
    events = [of(2, "d"), of(3, "c"), TRUNCATED, of(4, "c"), of(1, "c")]
    found = {change.row.key[0]: change.op for change in folded(events, table)}
    assert found == {1: "u", 2: "d", 3: "d", 4: "c"}


@pytest.mark.parametrize("table", [ORDERS, OUTBOX, MESSAGES])
@pytest.mark.parametrize("other", [CLIENTS, OUTBOX])
def test_a_truncate_of_another_table_deletes_no_row(table: str, other: str) -> None:
    """Also the outbox: a pruned one says nothing of the rows."""
    assert folded([(other, TRUNCATE, None)], table) == []
