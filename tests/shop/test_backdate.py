"""Orders placed in past hours."""

from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from lockstep.settings import Settings
from pizzeria.shop.backdate import place_orders_at
from pizzeria.shop.loader import load
from pizzeria.shop.pizza_place import PizzaPlace

pytestmark = pytest.mark.services

UNTIL = datetime(2024, 5, 6, 17, 42, tzinfo=UTC)


def test_each_order_is_a_transaction_of_its_own_at_its_time(
    shop: Settings, owner: psycopg.Connection
) -> None:
    times = [UNTIL - timedelta(minutes=minute) for minute in range(150)]
    assert place_orders_at(shop, times, seed=1) == 150
    found = owner.execute("SELECT order_time FROM orders ORDER BY id").fetchall()
    assert [moment for (moment,) in found] == sorted(times)
    assert owner.execute("SELECT count(DISTINCT xmin::text) FROM orders_outbox").fetchone() == (
        150,
    )


def test_same_seed_gives_the_same_enriched_orders(
    shop: Settings, owner: psycopg.Connection
) -> None:
    orders = "SELECT order_time, client_name, table_name, pizzas FROM order_enriched_in "
    for _ in range(2):
        place_orders_at(shop, [UNTIL - timedelta(minutes=minute) for minute in range(40)], seed=9)
    first = owner.execute(orders + "WHERE order_id <= 40 ORDER BY order_id").fetchall()
    second = owner.execute(orders + "WHERE order_id > 40 ORDER BY order_id").fetchall()
    assert first == second


def test_orders_join_a_loaded_shop(
    shop: Settings, small: PizzaPlace, owner: psycopg.Connection
) -> None:
    load(shop, small)
    times = [UNTIL, UNTIL - timedelta(hours=1)]
    assert place_orders_at(shop, times, seed=2) == 2
    assert [
        moment
        for (moment,) in owner.execute("SELECT order_time FROM orders WHERE id > 300 ORDER BY id")
    ] == sorted(times)
    assert owner.execute("SELECT count(*) = count(DISTINCT name) FROM tables").fetchone() == (True,)


def test_no_times_place_nothing(shop: Settings) -> None:
    assert place_orders_at(shop, [], seed=1) == 0
