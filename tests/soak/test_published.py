"""The outbox mode against what the database published, by hand and without a database."""

from datetime import timedelta
from decimal import Decimal

import pytest
from lockstep.model.modes import StreamMode
from lockstep_tools.soak.published import Content, Published, compare, folded

from tests.soak.change_log_tables import NOON


def content(op: str, price: str = "8.50") -> Content:
    if op == "d":
        return Content("d", None, None, None, None)
    return Content(op, NOON, "Anna", "Table 1", (("Margherita", Decimal(price)),))


def published(order_id: int, second: int, op: str, price: str = "8.50") -> Published:
    return Published(order_id, content(op, price), NOON + timedelta(seconds=second))


def logged(order_id: int, lsn: int, op: str, price: str = "8.50") -> Published:
    return Published(order_id, content(op, price), lsn)


TRUTH = [
    published(1, 1, "c"),
    published(1, 2, "u", "9.00"),
    published(1, 4, "d"),
    published(2, 3, "c"),
]
LOGGED = [logged(1, 10, "c"), logged(1, 20, "u", "9.00"), logged(1, 40, "d"), logged(2, 30, "c")]


def wrong(truth: list[Published], changes: list[Published]) -> list[str]:
    return [str(finding) for finding in compare(StreamMode.OUTBOX, truth, changes)]


def test_the_same_sequences_are_right() -> None:
    assert wrong(TRUTH, LOGGED) == []


@pytest.mark.parametrize(
    "changes",
    [
        LOGGED[1:],
        LOGGED[:2] + LOGGED[3:],
        LOGGED[:3],
        [LOGGED[0], logged(1, 20, "u", "9.01"), *LOGGED[2:]],
        [LOGGED[0], logged(1, 20, "c", "9.00"), *LOGGED[2:]],
        [logged(1, 10, "u", "9.00"), logged(1, 20, "c"), *LOGGED[2:]],
        [*LOGGED, logged(2, 50, "c")],
        [*LOGGED, logged(3, 50, "c")],
        LOGGED[3:],
    ],
    ids=[
        "first lost",
        "last lost",
        "order lost",
        "other price",
        "other op",
        "other sequence",
        "doubled",
        "invented",
        "created and deleted order lost",
    ],
)
def test_anything_else_is_found(changes: list[Published]) -> None:
    assert wrong(TRUTH, changes)


def test_a_stream_that_began_later_starts_with_what_was_there() -> None:
    assert wrong(TRUTH, [logged(1, 0, "c", "9.00"), logged(1, 40, "d"), logged(2, 30, "c")]) == []
    assert wrong(TRUTH, [logged(2, 0, "c")]) == []


def test_without_a_snapshot_nothing_may_be_missing() -> None:
    """Order 1 came and went before anything else happened."""
    truth = [published(1, 1, "c"), published(1, 2, "d"), published(2, 3, "c")]
    assert wrong(truth, [logged(2, 30, "c")])


@pytest.mark.parametrize(
    "changes",
    [
        [logged(1, 0, "c", "8.50"), logged(1, 40, "d"), logged(2, 30, "c")],
        [logged(1, 0, "c", "9.00"), logged(2, 30, "c")],
        [logged(1, 40, "d"), logged(2, 30, "c")],
    ],
    ids=["other snapshot", "deletion lost after the snapshot", "no snapshot row"],
)
def test_a_wrong_start_is_found(changes: list[Published]) -> None:
    assert wrong(TRUTH, changes)


def test_an_order_lost_whole_after_the_snapshot_is_found() -> None:
    """Order 1 came and went after order 3 had changed, so it was not before the snapshot."""
    truth = [*TRUTH, published(3, 0, "c"), published(3, 1, "u")]
    changes = [logged(2, 30, "c"), logged(3, 0, "c"), logged(3, 10, "u")]
    assert any("never seen" in text for text in wrong(truth, changes))


@pytest.mark.parametrize(
    ("ops", "op"),
    [(["c"], "c"), (["c", "u"], "c"), (["u", "u"], "u"), (["c", "d"], "d"), (["d", "c"], "u")],
)
def test_ops_of_one_transaction_fold(ops: list[str], op: str) -> None:
    assert folded(ops) == op
