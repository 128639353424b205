"""Who sits where is made up alike every time, and makes sense."""

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from pizzeria.shop.pizza_place import PizzaPlace, PlacedOrder
from pizzeria.shop.seating import TABLES_MAX, seat_orders


def test_seating_is_a_function_of_the_orders(small: PizzaPlace) -> None:
    assert seat_orders(small.orders) == seat_orders(list(small.orders))
    assert seat_orders(small.orders) != seat_orders(small.orders, seed=1)


def test_orders_lie_within_their_partys_stay(small: PizzaPlace) -> None:
    for entry in seat_orders(small.orders):
        assert entry.assignment.in_time <= entry.order.order_time <= entry.assignment.out_time


def test_no_table_and_no_client_is_in_two_parties_at_once(small: PizzaPlace) -> None:
    assignments = {entry.assignment for entry in seat_orders(small.orders)}
    for who in ("table", "client"):
        stays = defaultdict(list)
        for assignment in assignments:
            stays[getattr(assignment, who).id].append((assignment.in_time, assignment.out_time))
        for times in map(sorted, stays.values()):
            assert all(earlier[1] <= later[0] for earlier, later in pairwise(times))


def test_some_parties_order_again_and_some_clients_return(small: PizzaPlace) -> None:
    seated = seat_orders(small.orders)
    assignments = {entry.assignment.id: entry.assignment for entry in seated}
    clients = {assignment.client.id for assignment in assignments.values()}
    assert len(clients) < len(assignments) < len(seated)


def test_ids_are_numbered_from_one_without_gaps(small: PizzaPlace) -> None:
    assignments = {entry.assignment for entry in seat_orders(small.orders)}
    for ids in (
        {assignment.id for assignment in assignments},
        {assignment.client.id for assignment in assignments},
        {assignment.table.id for assignment in assignments},
    ):
        assert ids == set(range(1, len(ids) + 1))


def test_a_full_room_orders_again_instead_of_growing() -> None:
    opening = datetime(2024, 1, 1, tzinfo=UTC)
    orders = [PlacedOrder(n, opening + timedelta(seconds=n), (1,)) for n in range(1, 1001)]
    assert {entry.assignment.table.id for entry in seat_orders(orders)} == set(
        range(1, TABLES_MAX + 1)
    )
