"""How an order changed is told by the transaction that wrote its row."""

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

from lockstep.repair.orders import ChangedOrder, How, counted, how_changed
from lockstep.sources.window_orders import DatabaseOrder

ORDER = DatabaseOrder(
    order_id=7,
    order_time=datetime(2024, 5, 1, 12, tzinfo=UTC),
    client_name="Ada",
    table_name="Table 1",
    pizzas=[{"pizza": "Funghi", "price": Decimal("9.50")}],
    table_assignment_id=1,
    pizza_ids=[4],
    row_xid=900,
    row_committed_at=None,
)


def test_rows_of_other_transactions_differ_and_those_of_the_same_do_not() -> None:
    hourly = {1: 2**32 + 900, 2: 2**33 + 901, 3: 902, 4: 903}
    database = {1: 900, 2: 902, 4: 903, 5: 904}
    assert how_changed(hourly, database) == {2: How.UPDATED, 3: How.CANCELLED, 5: How.NEW}
    assert how_changed({}, {}) == {}


def test_a_digest_stands_for_the_values_of_both_sides() -> None:
    new = ChangedOrder(7, How.NEW, None, ORDER)
    dearer = ORDER._replace(pizzas=[{"pizza": "Funghi", "price": Decimal("9.51")}])
    others = [
        replace(new, after=dearer),
        replace(new, after=ORDER._replace(client_name=None)),
        replace(new, before={"client_name": "Ada"}),
        replace(new, order_id=8),
        replace(new, how=How.UPDATED),
    ]
    assert replace(new).digest == new.digest
    assert len({new.digest, *(one.digest for one in others)}) == 1 + len(others)


def test_changes_are_counted_by_kind() -> None:
    new = ChangedOrder(7, How.NEW, None, ORDER)
    assert counted([new, new, replace(new, how=How.CANCELLED)]) == "2 new, 1 cancelled"
