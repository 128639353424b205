"""Loading the small data set into a real database: exact, resumable, and refused when it must."""

import json
import logging
import random
import subprocess
import sys
import time
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import psycopg
import pytest
from lockstep.settings import Settings, source_password_setting
from lockstep.sources.errors import PostgresUnavailableError
from pizzeria.commands.orders import group
from pizzeria.errors import InputDataError
from pizzeria.names import SOURCE, Login
from pizzeria.shop.loader import load
from pizzeria.shop.pizza_place import MenuPizza, PizzaPlace, PlacedOrder
from typer.testing import CliRunner

pytestmark = pytest.mark.services

SMALL = Path(__file__).parents[1] / "data" / "small_pizzeria"

TABLES = ("orders", "table_assignment", "clients", "tables", "pizzas", "orders_outbox")


def contents(owner: psycopg.Connection) -> dict[str, list]:
    """Every row of every table."""
    return {
        table: owner.execute(f"SELECT * FROM {table} ORDER BY id").fetchall() for table in TABLES
    }


def hourly_totals(owner: psycopg.Connection) -> dict[str, dict]:
    rows = owner.execute(
        """
        SELECT
            to_char(date_trunc('hour', order_time), 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
            count(DISTINCT order_id), count(*), sum((pizza ->> 'price')::numeric)
        FROM order_enriched_in, json_array_elements(pizzas) AS pizza
        GROUP BY 1
        """
    )
    return {
        hour: {"orders": orders, "pizzas": pizzas, "revenue": str(revenue)}
        for hour, orders, pizzas, revenue in rows
    }


def test_small_data_set_loads_to_its_exact_totals(
    shop: Settings, small: PizzaPlace, small_totals: dict, owner: psycopg.Connection
) -> None:
    report = load(shop, small)
    assert (report.loaded, report.skipped) == (300, 0)
    assert report.found.orders == small_totals["orders"]
    assert report.found.pizzas == small_totals["pizzas"]
    assert report.found.revenue == Decimal(small_totals["revenue"])
    assert hourly_totals(owner) == small_totals["by_hour"]


def test_second_load_changes_nothing(
    shop: Settings, small: PizzaPlace, owner: psycopg.Connection
) -> None:
    load(shop, small)
    before = contents(owner)
    report = load(shop, small)
    assert (report.loaded, report.skipped) == (0, 300)
    assert contents(owner) == before


def test_outbox_holds_each_order_once_as_the_view_shows_it(
    shop: Settings, small: PizzaPlace, owner: psycopg.Connection
) -> None:
    load(shop, small)
    rows = owner.execute(
        """
        SELECT order_id, op, payload, order_time, client_name, table_name, pizzas
        FROM orders_outbox FULL JOIN order_enriched_in USING (order_id)
        """
    ).fetchall()
    assert len(rows) == 300
    for order_id, op, payload, order_time, client_name, table_name, pizzas in rows:
        assert op == "c"
        assert json.loads(payload, parse_float=Decimal) == {
            "op": "c",
            "order_id": order_id,
            "order_time": f"{order_time:%Y-%m-%dT%H:%M:%S.%f}Z",
            "client_name": client_name,
            "table_name": table_name,
            "pizzas": json.loads(json.dumps(pizzas), parse_float=Decimal),
        }


def test_each_order_is_a_transaction_of_its_own_in_order_of_time(
    shop: Settings, small: PizzaPlace, owner: psycopg.Connection
) -> None:
    load(shop, small)
    rows = owner.execute(
        """
        SELECT orders.id, orders.xmin::text, orders_outbox.xmin::text
        FROM orders JOIN orders_outbox ON orders_outbox.order_id = orders.id
        ORDER BY orders_outbox.id
        """
    ).fetchall()
    assert [row[0] for row in rows] == [order.id for order in small.orders]
    assert len({row[1] for row in rows}) == 300
    assert all(row[1] == row[2] for row in rows)


def test_killed_load_run_again_ends_with_the_same_rows(
    shop: Settings, small: PizzaPlace, owner: psycopg.Connection
) -> None:
    load(shop, small)
    expected = contents(owner)
    owner.execute(f"TRUNCATE {', '.join(TABLES)} RESTART IDENTITY")

    seed = time.time_ns()
    logging.getLogger(__name__).warning("seed %s", seed)
    kill_after = random.Random(seed).randint(1, 250)
    command = [sys.executable, "-c", "from lockstep.cli import main; main()"]
    process = subprocess.Popen([*command, "orders", "load", str(SMALL), "--rate", "150"])
    deadline = time.monotonic() + 60
    while owner.execute("SELECT count(*) FROM orders").fetchone()[0] < kill_after:
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.005)
    process.kill()
    process.wait()
    killed_at = owner.execute("SELECT count(*) FROM orders").fetchone()[0]
    assert killed_at < 300

    report = load(shop, small)
    assert report.skipped >= killed_at
    found = contents(owner)
    # An insert that was rolled back uses up an outbox id, so those are compared without it.
    for table in set(TABLES) - {"orders_outbox"}:
        assert found[table] == expected[table]
    assert [row[1:] for row in found["orders_outbox"]] == [
        row[1:] for row in expected["orders_outbox"]
    ]


def test_sequences_go_on_behind_the_loaded_ids(
    shop: Settings, small: PizzaPlace, owner: psycopg.Connection
) -> None:
    load(shop, small)
    for table in TABLES[:-1]:
        (last_id,) = owner.execute(f"SELECT max(id) FROM {table}").fetchone()
        (next_id,) = owner.execute(
            "SELECT nextval(pg_get_serial_sequence(%s, 'id'))", [table]
        ).fetchone()
        assert next_id == last_id + 1, table


def test_load_never_moves_a_sequence_back(
    shop: Settings, small: PizzaPlace, owner: psycopg.Connection
) -> None:
    owner.execute("SELECT setval('orders_id_seq', 5000)")
    load(shop, small)
    assert owner.execute("SELECT nextval('orders_id_seq')").fetchone() == (5001,)


def test_rate_spreads_the_orders_over_time(shop: Settings, small: PizzaPlace) -> None:
    few = replace(small, orders=small.orders[:21])
    started = time.monotonic()
    load(shop, few, rate=20)
    assert 1.0 <= time.monotonic() - started < 5.0


def test_order_with_other_content_is_refused_before_anything_is_written(
    shop: Settings, small: PizzaPlace, owner: psycopg.Connection
) -> None:
    load(shop, replace(small, orders=small.orders[:100]))
    changed_id = small.orders[50].id
    owner.execute("UPDATE orders SET pizzas = '{1}' WHERE id = %s", [changed_id])
    before = contents(owner)
    with pytest.raises(InputDataError, match=f"^order {changed_id}: the database already holds"):
        load(shop, small)
    assert contents(owner) == before


def test_another_menu_under_the_same_ids_is_refused(
    shop: Settings, small: PizzaPlace, owner: psycopg.Connection
) -> None:
    load(shop, small)
    other = MenuPizza(1, "Something Else (S)", Decimal(5))
    with pytest.raises(InputDataError, match="pizza 1: the database already holds 'Aurora"):
        load(shop, PizzaPlace((other,), (PlacedOrder(999, small.orders[0].order_time, (1,)),)))


def test_foreign_clients_under_the_same_ids_are_refused(
    shop: Settings, small: PizzaPlace, owner: psycopg.Connection
) -> None:
    owner.execute("INSERT INTO clients (id, name) VALUES (1, 'Somebody')")
    with pytest.raises(InputDataError, match="for order 1, client 1: "):
        load(shop, small)
    assert owner.execute("SELECT count(*) FROM pizzas").fetchone() == (0,)


def test_second_load_at_the_same_time_is_refused_when_the_first_takes_long(
    shop: Settings, small: PizzaPlace, owner: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pizzeria.shop.loader.LOCK_WAIT_SECONDS", 0.5)
    owner.execute("SELECT pg_advisory_lock(hashtext('lockstep orders load'))")
    with pytest.raises(InputDataError, match="another `lockstep orders load`"):
        load(shop, small)


def test_wrong_password_names_address_and_role_and_not_the_password(
    shop: Settings, small: PizzaPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting = source_password_setting(SOURCE, Login.SHOP)
    monkeypatch.setenv(setting, "not-the-one")
    with pytest.raises(PostgresUnavailableError) as caught:
        load(shop, small)
    message = str(caught.value)
    assert f"{shop.postgres_host}:{shop.postgres_port}" in message
    assert "role shop" in message
    assert setting in message
    assert "not-the-one" not in message


def test_absent_database_names_address_and_what_to_do(shop: Settings, small: PizzaPlace) -> None:
    with pytest.raises(PostgresUnavailableError, match=r"127\.0\.0\.1:1 .*`lockstep up`"):
        load(shop.model_copy(update={"postgres_port": 1}), small)


def test_absent_table_says_so(shop: Settings, small: PizzaPlace, owner: psycopg.Connection) -> None:
    owner.execute("ALTER TABLE orders RENAME TO orders_elsewhere")
    try:
        with pytest.raises(PostgresUnavailableError, match="not prepared: relation"):
            load(shop, small)
    finally:
        owner.execute("ALTER TABLE orders_elsewhere RENAME TO orders")


def test_command_shows_what_the_database_holds(shop: Settings) -> None:
    result = CliRunner().invoke(group, ["load", str(SMALL)])
    assert result.exit_code == 0
    assert "300 orders loaded" in result.output
    assert "13,024.05" in result.output.split("database")[1]
