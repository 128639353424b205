"""The plan of an evening: a function of its arguments, with every kind in its share."""

from collections import Counter

import pytest
from pizzeria.shop.operations import AddOrder, DeleteOrder, Hold, Kind, Transaction, Undone
from pizzeria.shop.plan import DECK, plan


def planned(seed: int = 3, rate: float = 50, seconds: float = 60) -> list[Transaction]:
    return list(plan(seed=seed, rate=rate, seconds=seconds, menu_size=24, table_count=10))


def test_same_seed_plans_the_same_transactions() -> None:
    assert planned() == planned()
    assert planned() != planned(seed=4)


@pytest.mark.parametrize(
    ("rate", "seconds", "orders"), [(50, 60, 3000), (0.5, 7, 3), (3.3, 10, 33)]
)
def test_exactly_the_orders_of_the_rate_are_placed(
    rate: float, seconds: float, orders: int
) -> None:
    transactions = planned(rate=rate, seconds=seconds)
    assert sum(transaction.placed_orders for transaction in transactions) == orders
    dues = [transaction.due_seconds for transaction in transactions]
    assert dues == sorted(dues)
    assert dues[0] >= 0
    assert dues[-1] < seconds


def test_kinds_come_in_the_proportions_of_the_deck() -> None:
    transactions = planned()
    counted = Counter(transaction.kind for transaction in transactions)
    for kind, cards in DECK.items():
        if kind not in (Kind.LONG, Kind.NEW_PIZZA):  # these are bounded in time, too
            assert counted[kind] / len(transactions) == pytest.approx(cards / 100, rel=0.15), kind


def test_deck_has_a_card_for_every_kind_and_a_hundred_in_all() -> None:
    assert set(DECK) == set(Kind)
    assert sum(DECK.values()) == 100


def test_every_kind_happens_within_a_short_evening() -> None:
    counted = Counter(transaction.kind for transaction in planned(rate=15, seconds=10))
    assert set(counted) == set(Kind)


def test_needs_are_earlier_transactions_that_made_what_is_used() -> None:
    made_by: dict[int, int] = {}
    for transaction in planned():
        assert all(number < transaction.number for number in transaction.needs)
        for step in transaction.steps:
            order = getattr(step, "order", None)
            if isinstance(step, AddOrder):
                made_by[order] = transaction.number
            elif order is not None:
                assert made_by[order] in transaction.needs | {transaction.number}


def test_a_cancelled_order_is_never_touched_again_and_waits_for_its_changes() -> None:
    touched_by: dict[int, set[int]] = {}
    cancelled: set[int] = set()
    for transaction in planned():
        steps = [
            inner
            for step in transaction.steps
            for inner in (step.steps if isinstance(step, Undone) else (step,))
        ]
        for step in steps:
            order = getattr(step, "order", None)
            if order is None:
                continue
            assert order not in cancelled
            if isinstance(step, DeleteOrder):
                assert touched_by[order] <= transaction.needs
                cancelled.add(order)
            if transaction.commits:
                touched_by.setdefault(order, set()).add(transaction.number)
    assert cancelled


def test_nothing_builds_on_an_aborted_or_undone_row() -> None:
    gone: set[int] = set()
    for transaction in planned():
        for step in transaction.steps:
            if isinstance(step, Undone):
                gone |= {inner.order for inner in step.steps if isinstance(inner, AddOrder)}
            elif isinstance(step, AddOrder) and not transaction.commits:
                gone.add(step.order)
            elif hasattr(step, "order"):
                assert step.order not in gone
    assert gone


def test_long_transactions_follow_each_other_and_overlap_others() -> None:
    transactions = planned()
    long = [transaction for transaction in transactions if transaction.kind is Kind.LONG]
    open_until = 0.0
    for transaction in long:
        assert transaction.due_seconds >= open_until
        (hold,) = [step for step in transaction.steps if isinstance(step, Hold)]
        open_until = transaction.due_seconds + hold.seconds
        overlapped = [
            other
            for other in transactions
            if transaction.due_seconds < other.due_seconds < open_until
        ]
        assert len(overlapped) > 20 or open_until > 60
    assert len(long) > 5
