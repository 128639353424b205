"""The benchmark's filling: even, proportionate, reproducible, and only into an empty database."""

from datetime import timedelta

import psycopg
import pytest
from lockstep.settings import Settings
from pizzeria.errors import InputDataError
from pizzeria.shop.bulk import START, fill

pytestmark = pytest.mark.services


def test_orders_are_even_over_the_hours_and_the_rest_proportionate(
    shop: Settings, owner: psycopg.Connection
) -> None:
    fill(shop, 24_000)
    counts = {
        table: owner.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        for table in ("orders", "table_assignment", "clients", "tables", "pizzas", "orders_outbox")
    }
    assert counts == {
        "orders": 24_000,
        "table_assignment": 16_000,
        "clients": 9_600,
        "tables": 40,
        "pizzas": 96,
        "orders_outbox": 0,
    }
    hours = owner.execute(
        "SELECT date_trunc('hour', order_time), count(*) FROM orders GROUP BY 1 ORDER BY 1"
    ).fetchall()
    assert hours == [(START + timedelta(hours=hour), 1000) for hour in range(24)]
    shortest, average, longest = owner.execute(
        "SELECT min(cardinality(pizzas)), avg(cardinality(pizzas))::float, "
        "max(cardinality(pizzas)) FROM orders"
    ).fetchone()
    assert (shortest, longest) == (1, 5)
    assert average == pytest.approx(2.3, abs=0.1)


def test_same_seed_makes_the_same_rows_and_another_seed_others(
    shop: Settings, owner: psycopg.Connection
) -> None:
    digests = []
    for seed in (1, 1, 2):
        owner.execute("TRUNCATE orders, table_assignment, clients, tables, pizzas")
        fill(shop, 1_000, hours=2, seed=seed)
        digests.append(
            owner.execute(
                "SELECT md5(string_agg((to_jsonb(o) - 'row_xid')::text, '|' ORDER BY order_id)) "
                "FROM order_enriched_in o"
            ).fetchone()
        )
    assert digests[0] == digests[1] != digests[2]


def test_no_order_lacks_a_name_or_a_price(shop: Settings, owner: psycopg.Connection) -> None:
    fill(shop, 1_000)
    assert owner.execute(
        "SELECT count(*) FROM order_enriched_in WHERE client_name IS NULL OR table_name IS NULL "
        "OR pizzas::text LIKE '%null%'"
    ).fetchone() == (0,)


def test_a_database_with_rows_is_refused(shop: Settings) -> None:
    fill(shop, 10)
    with pytest.raises(InputDataError, match="holds rows already"):
        fill(shop, 10)


@pytest.mark.parametrize(("orders", "hours"), [(0, 24), (-1, 24), (10, 0)])
def test_senseless_numbers_are_refused(shop: Settings, orders: int, hours: int) -> None:
    with pytest.raises(InputDataError, match="cannot fill"):
        fill(shop, orders, hours)
