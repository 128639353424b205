"""An evening in the shop on a real database, with several writers at once."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import psycopg
import pytest
from lockstep.accounts import Role
from lockstep.settings import Settings
from lockstep.sources.errors import PostgresUnavailableError
from lockstep.sources.postgres import connect
from pizzeria.names import Login
from pizzeria.shop.executor import execute
from pizzeria.shop.generator import GenerateReport, generate
from pizzeria.shop.loader import load
from pizzeria.shop.opening import open_shop
from pizzeria.shop.operations import Hold, Kind, SetPrice, Transaction
from pizzeria.shop.pizza_place import PizzaPlace
from pizzeria.shop.plan import plan

pytestmark = pytest.mark.services

SEED = 11

# Each order's last outbox row beside the view, and whether a client or price of it was changed by
# a transaction that committed after that row's.
LAST_STATES = """
WITH last_rows AS (
    SELECT DISTINCT ON (order_id)
        order_id, op, payload, pg_xact_commit_timestamp(xmin) AS committed
    FROM orders_outbox
    ORDER BY order_id, id DESC
)
SELECT
    last_rows.op,
    last_rows.payload,
    to_jsonb(view) ->> 'order_id',
    json_build_object(
        'op', last_rows.op,
        'order_id', last_rows.order_id,
        'order_time',
        to_char(view.order_time AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
        'client_name', view.client_name,
        'table_name', view.table_name,
        'pizzas', view.pizzas
    )::text,
    EXISTS (
        SELECT FROM clients
        JOIN table_assignment ON table_assignment.client_id = clients.id
        WHERE table_assignment.id = orders.table_assignment_id
        AND pg_xact_commit_timestamp(clients.xmin) > last_rows.committed
    ) OR EXISTS (
        SELECT FROM pizzas
        WHERE pizzas.id = ANY(orders.pizzas)
        AND pg_xact_commit_timestamp(pizzas.xmin) > last_rows.committed
    )
FROM last_rows
LEFT JOIN orders ON orders.id = last_rows.order_id
LEFT JOIN order_enriched_in AS view ON view.order_id = last_rows.order_id
"""


def an_evening(settings: Settings, **changes: float) -> GenerateReport:
    arguments = {"rate": 40, "seconds": 5, "seed": SEED, "writers": 6} | changes
    return generate(settings, **arguments)


def test_last_outbox_row_is_the_views_state_unless_a_dimension_changed_later(
    shop: Settings, owner: psycopg.Connection
) -> None:
    report = an_evening(shop)
    rows = owner.execute(LAST_STATES).fetchall()
    assert len(rows) == report.placed_orders == 200
    compared = 0
    for op, payload, order_id, expected, changed_later in rows:
        assert (op == "d") == (order_id is None)
        if op != "d" and not changed_later:
            assert json.loads(payload) == json.loads(expected)
            compared += 1
    assert compared > 20


def test_every_kind_happens_and_the_counts_are_the_plans(shop: Settings) -> None:
    with connect(shop, Login.SHOP) as connection:
        opened = open_shop(connection)
    report = an_evening(shop)
    planned = list(
        plan(
            seed=SEED,
            rate=40,
            seconds=5,
            menu_size=len(opened.pizza_ids),
            table_count=len(opened.table_ids),
        )
    )
    assert set(report.transactions) == set(Kind)
    assert report.transactions.total() == len(planned)


def test_each_order_and_transaction_has_one_outbox_row(
    shop: Settings, owner: psycopg.Connection
) -> None:
    an_evening(shop)
    assert not owner.execute(
        "SELECT order_id, xmin::text FROM orders_outbox GROUP BY 1, 2 HAVING count(*) > 1"
    ).fetchall()
    unpublished = "SELECT id FROM orders WHERE id NOT IN (SELECT order_id FROM orders_outbox)"
    assert not owner.execute(unpublished).fetchall()


def test_aborted_and_undone_work_leaves_no_trace(shop: Settings, owner: psycopg.Connection) -> None:
    report = an_evening(shop)
    assert report.transactions[Kind.ABORTED] > 0
    assert report.transactions[Kind.SAVEPOINT] > 0
    created = "SELECT count(*) FROM orders_outbox WHERE op = 'c'"
    assert owner.execute(created).fetchone() == (200,)
    deleted = report.transactions[Kind.CANCEL_ORDER]
    assert owner.execute("SELECT count(*) FROM orders").fetchone() == (200 - deleted,)


def test_a_long_transaction_commits_after_others_that_began_later(
    shop: Settings, owner: psycopg.Connection
) -> None:
    an_evening(shop)
    # order_time is the transaction's beginning, the outbox id its end.
    assert owner.execute(
        """
        SELECT count(*)
        FROM orders_outbox AS earlier
        JOIN orders ON orders.id = earlier.order_id
        WHERE earlier.op = 'c' AND (
            SELECT count(*) FROM orders_outbox AS passed
            JOIN orders AS younger ON younger.id = passed.order_id
            WHERE passed.op = 'c' AND passed.id < earlier.id
            AND younger.order_time > orders.order_time + INTERVAL '1 second'
        ) > 10
        """
    ).fetchone()[0]


def test_generating_after_a_load_collides_with_nothing(
    shop: Settings, small: PizzaPlace, owner: psycopg.Connection
) -> None:
    load(shop, small)
    report = an_evening(shop, seconds=2)
    assert report.placed_orders == 80
    (loaded,) = owner.execute("SELECT count(*) FROM orders WHERE id <= 300").fetchone()
    assert loaded == 300


def test_many_writers_surface_no_deadlock(shop: Settings) -> None:
    report = an_evening(shop, rate=150, writers=16)
    assert report.placed_orders == 750


def test_a_deadlock_is_retried_and_counted(shop: Settings, owner: psycopg.Connection) -> None:
    with connect(shop, Login.SHOP) as connection:
        ids = open_shop(connection).ids
    prices = Decimal("11.11"), Decimal("22.22")

    def reprice(number: int) -> int:
        first, second = number, 1 - number
        steps = (SetPrice(first, prices[number]), Hold(0.5), SetPrice(second, prices[number]))
        transaction = Transaction(number, Kind.CHANGE_PRICE, 0.0, steps, frozenset())
        with connect(shop, Login.SHOP) as connection:
            return execute(connection, transaction, ids, threading.Event())

    with ThreadPoolExecutor(2) as writers:
        assert sum(writers.map(reprice, (0, 1))) >= 1
    first_two = "SELECT DISTINCT price FROM pizzas WHERE id = ANY(%s)"
    rows = owner.execute(first_two, [[ids["pizza", 0], ids["pizza", 1]]]).fetchall()
    assert len(rows) == 1


def test_lost_connections_end_the_evening_with_a_clear_error(shop: Settings) -> None:
    def hang_up() -> None:
        with connect(shop, Role.ADMIN) as admin:
            deadline = time.monotonic() + 20
            query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'shop'"
            while time.monotonic() < deadline:
                time.sleep(0.5)
                if (admin.execute("SELECT count(*) FROM orders").fetchone()[0]) > 10:
                    admin.execute(query)
                    return

    with ThreadPoolExecutor(1) as other:
        hung_up = other.submit(hang_up)
        with pytest.raises(PostgresUnavailableError, match="role shop"):
            an_evening(shop, seconds=30)
        hung_up.result()


def test_messages_are_the_outbox_rows(shop: Settings, owner: psycopg.Connection) -> None:
    with connect(shop, Role.ADMIN) as admin:
        admin.execute("SELECT pg_create_logical_replication_slot('messages_test', 'pgoutput')")
        try:
            an_evening(shop, seconds=3)
            changes = admin.execute(
                "SELECT data FROM pg_logical_slot_get_binary_changes('messages_test', NULL, NULL, "
                "'proto_version', '1', 'publication_names', 'lockstep', 'messages', 'true')"
            ).fetchall()
        finally:
            admin.execute("SELECT pg_drop_replication_slot('messages_test')")
    messages = [_content(data) for (data,) in changes if _is_of_orders(data)]
    payloads = [row[0] for row in owner.execute("SELECT payload FROM orders_outbox")]
    assert sorted(messages) == sorted(payloads)
    assert len(messages) > 100


def _is_of_orders(change: bytes) -> bool:
    """Whether pgoutput's change is a message of the shop's; a heartbeat may come at any time."""
    return change[:1] == b"M" and _prefix(change) == b"orders"


def _prefix(message: bytes) -> bytes:
    """A pgoutput message is: kind, flags, LSN, prefix, 0, length, content."""
    return message[10 : message.index(b"\0", 10)]


def _content(message: bytes) -> str:
    return message[message.index(b"\0", 10) + 5 :].decode()
