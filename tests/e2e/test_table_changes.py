"""TRUNCATE and ALTER TABLE through the real Debezium into each mode's Delta table and the history.

One stack and one set of tables for all: each test adds to what the ones before did, and puts the
schema back, except where it is only wider than before.
"""

from collections.abc import Iterator

import pytest
from lockstep.model.modes import HISTORY, StreamMode
from lockstep.pipeline.errors import PipelineError
from lockstep_tools.soak.equality import check_equal, check_positions
from pyspark.sql import SparkSession

from tests.e2e.conftest import stack_of_its_own
from tests.e2e.table_changes import ALL, OPENING, Followers, Shop, disagreements
from tests.project import PROJECT_DIR

pytestmark = [pytest.mark.e2e, pytest.mark.services, pytest.mark.spark]

JOINING = {StreamMode.TEMPORAL, StreamMode.TRANSACTION, HISTORY}
"""They read the changes of what orders refer to."""
SQL = PROJECT_DIR / "include" / "sources" / "pizzeria" / "database"
WRITTEN_AGAIN = [f"UPDATE {table} SET name = name" for table in ("clients", "tables", "pizzas")]
WITHOUT_VIEW = "DROP VIEW order_enriched_in"
WITH_VIEW = [(SQL / name).read_text("utf-8") for name in ("order_enriched_in.sql", "grants.sql")]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with stack_of_its_own(tmp_path_factory.mktemp("tables"), ["connect"]) as settings:
        yield Shop(settings)


@pytest.fixture(scope="module")
def followers(shop: Shop, spark: SparkSession) -> Followers:
    return Followers(spark, shop.settings)


def require_agreement(shop: Shop, followers: Followers) -> None:
    """All tables say what the database does, and the change logs the same, change by change."""
    assert followers.follow(shop) == {}
    assert disagreements(shop, followers) == {}
    settings = followers.settings
    for mode in StreamMode:
        assert check_positions(settings, mode) == []
        if not followers.given_up:  # which is missing in some of them for good
            assert check_equal(settings, mode) == []


@pytest.mark.parametrize(
    "statement",
    [
        "TRUNCATE orders",
        "TRUNCATE table_assignment CASCADE",
        "TRUNCATE clients CASCADE",
        "TRUNCATE tables CASCADE",
        "TRUNCATE pizzas",
        "TRUNCATE orders, table_assignment, clients, tables, pizzas RESTART IDENTITY",
    ],
)
def test_a_truncate_is_in_every_table_what_it_is_in_the_database(
    shop: Shop, followers: Followers, statement: str
) -> None:
    for _ in range(2):
        shop.order(*OPENING)
    require_agreement(shop, followers)
    before = len(shop.orders)
    shop.run(statement)
    assert len(shop.orders) == (before if statement == "TRUNCATE pizzas" else 0)
    require_agreement(shop, followers)
    shop.order(*OPENING)
    shop.order("UPDATE clients SET name = 'Berta'", statement, *OPENING)
    shop.order("UPDATE pizzas SET price = price + 1")
    require_agreement(shop, followers)


WIDER_IDS = (
    WITHOUT_VIEW,
    "ALTER TABLE tables ALTER id TYPE bigint",
    "ALTER TABLE pizzas ALTER id TYPE bigint",
    "ALTER TABLE table_assignment ALTER table_id TYPE bigint",
    "ALTER TABLE orders ALTER pizzas TYPE bigint[]",
    *WITH_VIEW,
    "SELECT setval(pg_get_serial_sequence('tables', 'id'), 3000000000)",
    "SELECT setval(pg_get_serial_sequence('pizzas', 'id'), 3000000000)",
)


@pytest.mark.parametrize(
    ("alter", "back"),
    [
        (["ALTER TABLE clients ADD note text"], ["ALTER TABLE clients DROP note"]),
        (
            ["ALTER TABLE pizzas ADD size integer NOT NULL DEFAULT 5"],
            ["ALTER TABLE pizzas DROP size"],
        ),
        (["ALTER TABLE orders ADD tip numeric DEFAULT 1"], ["ALTER TABLE orders DROP tip"]),
        (
            ["ALTER TABLE table_assignment RENAME out_time TO left_at"],
            ["ALTER TABLE table_assignment RENAME left_at TO out_time"],
        ),
        (
            ["ALTER TABLE table_assignment DROP out_time"],
            ["ALTER TABLE table_assignment ADD out_time timestamptz CHECK (out_time >= in_time)"],
        ),
        (
            ["ALTER TABLE table_assignment ALTER in_time TYPE timestamp"],
            ["ALTER TABLE table_assignment ALTER in_time TYPE timestamptz"],
        ),
    ],
    ids=["added", "with default", "to orders", "renamed", "dropped", "retyped"],
)
def test_columns_that_no_pipeline_reads_change_nothing(
    shop: Shop, followers: Followers, alter: list[str], back: list[str]
) -> None:
    shop.order(*OPENING)
    shop.run(*alter)
    shop.order()
    shop.order(*OPENING)
    shop.run("UPDATE clients SET name = 'Carla'", "UPDATE pizzas SET price = 7.25")
    shop.order()
    require_agreement(shop, followers)
    shop.run(*back)
    shop.order(*OPENING)
    require_agreement(shop, followers)


def test_a_wider_integer_stops_who_reads_it_until_the_catalog_is_written_again(
    shop: Shop, followers: Followers
) -> None:
    """A pipeline's types are those of its catalog: a value that does not fit stops by name.

    Other types are another version of the pipeline: its tables are made again.
    """
    shop.order(*OPENING)
    shop.run(*WIDER_IDS)
    shop.order(*OPENING)
    stopped = followers.follow(shop)
    assert stopped.keys() == JOINING | {StreamMode.LOOKUP}
    assert {"is no integer" in error.reason for error in stopped.values()} == {True}
    followers.write_catalog()
    with pytest.raises(PipelineError, match="`lockstep pipeline lock orders_enriched`"):
        followers.follow(shop)
    followers.lock_result()
    with pytest.raises(PipelineError, match="`lockstep stream rebuild lookup`"):
        followers.follow(shop)
    followers.rebuild()
    require_agreement(shop, followers)
    shop.order(*OPENING)
    require_agreement(shop, followers)


@pytest.mark.parametrize(
    ("alter", "change", "back", "says"),
    [
        (
            ["ALTER TABLE clients RENAME name TO full_name"],
            "INSERT INTO clients (full_name) VALUES ('Dora')",
            ["ALTER TABLE clients RENAME full_name TO name"],
            "table public.clients, column name: Object missing required field `name`",
        ),
        (
            ["ALTER TABLE clients DROP name CASCADE"],
            "INSERT INTO clients DEFAULT VALUES",
            ["ALTER TABLE clients ADD name text NOT NULL DEFAULT 'Emma'", *WITH_VIEW],
            "table public.clients, column name: Object missing required field `name`",
        ),
        (
            [WITHOUT_VIEW, "ALTER TABLE pizzas ALTER price TYPE numeric(12, 4)", *WITH_VIEW],
            "INSERT INTO pizzas (name, price) VALUES ('Gold', 99.1234)",
            [WITHOUT_VIEW, "ALTER TABLE pizzas ALTER price TYPE numeric(10, 2)", *WITH_VIEW],
            "table public.pizzas, column price: ",
        ),
        (
            [WITHOUT_VIEW, "ALTER TABLE tables ALTER name TYPE text[] USING ARRAY[name]"],
            "INSERT INTO tables (name) VALUES ('{T2}')",
            ["ALTER TABLE tables ALTER name TYPE text USING name[1]", *WITH_VIEW],
            "table public.tables, column name: ",
        ),
    ],
    ids=["renamed", "dropped", "narrower elsewhere", "retyped"],
)
def test_a_column_that_is_read_and_changed_stops_by_name_who_reads_it(
    shop: Shop, followers: Followers, alter: list[str], change: str, back: list[str], says: str
) -> None:
    """What precedes is there, nothing behind it. Given up, and the rows written again, all is well.

    An ALTER that gives rows other values sends no changes of them. So they are written again in the
    same transaction.
    """
    before = shop.order(*OPENING)
    shop.run(*alter)
    shop.run(change)
    followers.await_topic(shop)  # Debezium reads the table's shape when it meets a change of it
    shop.run(*back, *WRITTEN_AGAIN)
    after = shop.order()
    stopped = followers.follow(shop)
    assert stopped.keys() == JOINING
    assert {says in error.reason for error in stopped.values()} == {True}
    for mode in StreamMode:
        expected = {before} if mode in JOINING else {before, after}
        assert followers.orders(mode).keys() & {before, after} == expected
    (offset,) = {error.offset for error in stopped.values()}
    followers.give_up(offset)
    require_agreement(shop, followers)
    shop.order(*OPENING)
    require_agreement(shop, followers)


def test_a_column_of_the_orders_that_is_renamed_stops_who_reads_the_orders(
    shop: Shop, followers: Followers
) -> None:
    before = shop.order(*OPENING)
    shop.run("ALTER TABLE orders RENAME pizzas TO items")
    order = "INSERT INTO orders (table_assignment_id, order_time, items) VALUES (%s, now(), '{7}')"
    shop.run(order % "(SELECT max(id) FROM table_assignment)")
    followers.await_topic(shop)
    shop.run("ALTER TABLE orders RENAME items TO pizzas")
    stopped = followers.follow(shop)
    assert stopped.keys() == {StreamMode.LOOKUP, *JOINING}
    assert {"missing required field `pizzas`" in one.reason for one in stopped.values()} == {True}
    assert all(before in followers.orders(mode) for mode in ALL if mode != HISTORY)
    (offset,) = {error.offset for error in stopped.values()}
    followers.give_up(offset)
    shop.run("DELETE FROM orders WHERE pizzas = '{7}'")  # none of the modes has seen it
    shop.order()
    require_agreement(shop, followers)


def test_a_large_value_that_a_change_leaves_out_is_never_taken_for_one(
    shop: Shop, followers: Followers
) -> None:
    """Without REPLICA IDENTITY FULL Debezium puts a placeholder where an update changed nothing."""
    order = shop.order(*OPENING)
    numbers = "(SELECT array_agg((random() * 2000000000)::integer) FROM generate_series(1, 4000))"
    shop.run(f"UPDATE orders SET pizzas = {numbers} WHERE id = {order}")
    shop.run("ALTER TABLE orders REPLICA IDENTITY DEFAULT")
    shop.run(f"UPDATE orders SET table_assignment_id = table_assignment_id WHERE id = {order}")
    shop.run("ALTER TABLE orders REPLICA IDENTITY FULL")
    stopped = followers.follow(shop)
    assert stopped.keys() == {StreamMode.LOOKUP}  # the modes that join know the value of before
    (error,) = stopped.values()
    assert "orders REPLICA IDENTITY FULL" in error.reason
    followers.give_up(error.offset)
    shop.run(f"DELETE FROM orders WHERE id = {order}", f"SELECT publish_order({order}, 'd')")
    require_agreement(shop, followers)
