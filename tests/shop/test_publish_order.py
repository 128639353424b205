"""publish_order: what an order's outbox row and message say when others write at the same time."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import psycopg
import pytest
from lockstep.accounts import Role
from lockstep.settings import Settings
from lockstep.sources.postgres import connect
from pizzeria.names import Login
from psycopg import errors

pytestmark = pytest.mark.services


@pytest.fixture
def cashier(shop: Settings) -> Iterator[psycopg.Connection]:
    """The shop with order 1 of pizzas 2, 1, 2 by client 1; the connection that will change it."""
    with connect(shop, Login.SHOP) as connection:
        connection.execute("INSERT INTO pizzas VALUES (1, 'Aurora', 8.5), (2, 'Bosco', 9)")
        connection.execute("INSERT INTO clients VALUES (1, 'Ada')")
        connection.execute("INSERT INTO tables VALUES (1, 'Window')")
        connection.execute("INSERT INTO table_assignment VALUES (1, 1, 1, '2024-01-01T11:00Z')")
        connection.execute("INSERT INTO orders VALUES (1, 1, '2024-01-01T12:00Z', '{2,1,2}')")
        yield connection


@pytest.fixture
def other(shop: Settings) -> Iterator[psycopg.Connection]:
    with connect(shop, Login.SHOP) as connection:
        yield connection


def publish(connection: psycopg.Connection, op: str = "u") -> None:
    connection.execute("SELECT publish_order(1, %s)", [op])


def payload(connection: psycopg.Connection) -> dict:
    query = "SELECT payload FROM orders_outbox ORDER BY id DESC LIMIT 1"
    return json.loads(connection.execute(query).fetchone()[0])


def wait_until_waiting(settings: Settings, waiting: Future) -> None:
    """Until one of the shop's connections waits for a lock; fails if `waiting` ends first."""
    with connect(settings, Role.ADMIN) as admin:
        deadline = time.monotonic() + 10
        query = (
            "SELECT count(*) FROM pg_stat_activity "
            "WHERE usename = 'shop' AND wait_event_type = 'Lock'"
        )
        while admin.execute(query).fetchone() == (0,):
            assert not waiting.done(), "did not wait for the lock"
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_payload_keeps_sequence_and_repetition(cashier: psycopg.Connection) -> None:
    publish(cashier)
    assert payload(cashier) == {
        "op": "u",
        "order_id": 1,
        "order_time": "2024-01-01T12:00:00.000000Z",
        "client_name": "Ada",
        "table_name": "Window",
        "pizzas": [
            {"pizza": "Bosco", "price": 9.0},
            {"pizza": "Aurora", "price": 8.5},
            {"pizza": "Bosco", "price": 9.0},
        ],
    }


CHANGES = {
    "price": ("UPDATE pizzas SET price = 10 WHERE id = 2", ("pizzas", 0, "price"), 10.0),
    "client": ("UPDATE clients SET name = 'Ada B.' WHERE id = 1", ("client_name",), "Ada B."),
    "table": ("UPDATE tables SET name = 'Door' WHERE id = 1", ("table_name",), "Door"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_publishing_waits_for_a_change_under_way_and_sees_it(
    shop: Settings, cashier: psycopg.Connection, other: psycopg.Connection, change: str
) -> None:
    statement, path, expected = CHANGES[change]
    other.execute("BEGIN")
    other.execute(statement)
    with ThreadPoolExecutor(1) as pool:
        published = pool.submit(publish, cashier)
        wait_until_waiting(shop, published)
        other.execute("COMMIT")
        published.result(timeout=10)
    found = payload(cashier)
    for key in path:
        found = found[key]
    assert found == expected


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_published_cannot_change_before_the_order_commits(
    shop: Settings, cashier: psycopg.Connection, other: psycopg.Connection, change: str
) -> None:
    cashier.execute("BEGIN")
    publish(cashier)
    with ThreadPoolExecutor(1) as pool:
        changed = pool.submit(other.execute, CHANGES[change][0])
        wait_until_waiting(shop, changed)
        cashier.execute("COMMIT")
        changed.result(timeout=10)


def test_cancelled_order_is_published_by_its_id_alone(cashier: psycopg.Connection) -> None:
    with cashier.transaction():
        cashier.execute("DELETE FROM orders WHERE id = 1")
        publish(cashier, "d")
    assert payload(cashier) == {"op": "d", "order_id": 1}


def test_missing_order_cannot_be_published_as_changed(cashier: psycopg.Connection) -> None:
    cashier.execute("DELETE FROM orders WHERE id = 1")
    with pytest.raises(errors.RaiseException, match="order 1 does not exist"):
        publish(cashier)


def test_unknown_pizza_is_published_with_nulls(cashier: psycopg.Connection) -> None:
    cashier.execute("UPDATE orders SET pizzas = '{99,1}' WHERE id = 1")
    publish(cashier)
    assert payload(cashier)["pizzas"] == [
        {"pizza": None, "price": None},
        {"pizza": "Aurora", "price": 8.5},
    ]


def test_other_isolation_levels_are_refused(cashier: psycopg.Connection) -> None:
    cashier.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    with pytest.raises(errors.RaiseException, match="needs READ COMMITTED"):
        publish(cashier)
    cashier.execute("ROLLBACK")


def test_order_time_is_immutable(cashier: psycopg.Connection) -> None:
    with pytest.raises(errors.IntegrityConstraintViolation, match="immutable"):
        cashier.execute("UPDATE orders SET order_time = now() WHERE id = 1")
