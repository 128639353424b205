"""The look-up join: what it reads, and that it marks exactly what may have changed since."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING

import psycopg
import pyarrow as pa
import pytest
from lockstep.accounts import Role
from lockstep.cdc.cuts import DatabaseSnapshot
from lockstep.pipeline.delta_types import arrow_schema
from lockstep.pipeline.project import read_project
from lockstep.pipeline.result import Result
from lockstep.settings import Settings
from lockstep.sources import kept_connection, row_lookup
from lockstep.sources.errors import PostgresUnavailableError
from lockstep.sources.postgres import role_connection
from lockstep.sources.row_lookup import MOMENT, Question, RowLookup, judged, seen_columns, seen_now
from pizzeria.names import Login
from pydantic import SecretStr
from pyspark import cloudpickle

from tests.project import PROJECT_DIR
from tests.streams.topics import PLAN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RESULT = PLAN.result
CATALOG = read_project(PROJECT_DIR).sources[PLAN.source].catalog
SEEN = arrow_schema(seen_columns(RESULT))
THEN = datetime(2024, 2, 3, 18, 0, 0, 123456, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
TIME = pa.timestamp("us", "UTC")
MOMENT_SEEN = {"snapshot": "700:702:700", "wal_lsn": 5_000}
PIZZAS = [{"pizza": "Margherita", "price": Decimal("8.50")}]


def changes(*rows: tuple[int, str, int | None, datetime]) -> pa.Table:
    names = ("order_id", "op", "tx_id", "committed_at")
    types = (pa.int64(), pa.string(), pa.int64(), TIME)
    columns = zip(*rows, strict=True)
    return pa.table(
        {n: pa.array(list(c), t) for n, c, t in zip(names, columns, types, strict=True)}
    )


def seen(
    fact_committed_at: datetime | None = THEN,
    newest_committed_at: datetime | None = THEN,
    *,
    is_whole: bool = True,
) -> pa.Table:
    """What the database has of order 7."""
    row = {
        "order_id": 7,
        "order_time": THEN,
        "client_name": "Ada",
        "table_name": "Window",
        "pizzas": PIZZAS,
        "fact_committed_at": fact_committed_at,
        "newest_committed_at": newest_committed_at,
        "is_whole": is_whole,
        **MOMENT_SEEN,
    }
    return pa.Table.from_pylist([row], schema=SEEN)


def is_raced(found: pa.Table, op: str = "u", tx_id: int | None = 900) -> bool:
    (marked,) = judged(changes((7, op, tx_id, THEN)), found, RESULT)["is_raced"].to_pylist()
    return marked


def test_what_was_read_as_the_transaction_left_it_is_not_marked() -> None:
    assert not is_raced(seen(THEN, THEN))
    (row,) = judged(changes((7, "c", 900, THEN)), seen(), RESULT).to_pylist()
    assert (row["client_name"], row["pizzas"], row["is_raced"]) == ("Ada", PIZZAS, False)


def test_an_order_changed_since_is_marked() -> None:
    assert is_raced(seen(THEN + MICROSECOND, THEN + MICROSECOND))


def test_a_name_changed_since_is_marked() -> None:
    assert is_raced(seen(THEN, THEN + MICROSECOND))


def test_a_change_whose_commit_was_not_yet_visible_is_marked() -> None:
    assert is_raced(seen(THEN - MICROSECOND, THEN - MICROSECOND))


def test_an_order_that_names_something_gone_is_marked() -> None:
    assert is_raced(seen(is_whole=False))


def test_a_version_whose_time_the_database_forgot_is_marked() -> None:
    assert is_raced(seen(None, THEN - MICROSECOND))


def test_a_row_of_the_snapshot_is_judged_by_the_time_of_the_snapshot() -> None:
    before, after = THEN - MICROSECOND, THEN + MICROSECOND
    assert not is_raced(seen(before, before), "c", None)
    assert not is_raced(seen(None, None), "c", None)
    assert is_raced(seen(before, after), "c", None)
    assert is_raced(seen(before, before, is_whole=False), "c", None)


def test_an_order_that_is_gone_is_kept_with_nulls_and_marked() -> None:
    row = dict.fromkeys(SEEN.names) | {"order_id": 8, **MOMENT_SEEN}
    not_there = pa.Table.from_pylist([row], schema=SEEN)
    (row,) = judged(changes((8, "c", 900, THEN)), not_there, RESULT).to_pylist()
    assert row == {**dict.fromkeys(RESULT.values), "is_raced": True, **MOMENT_SEEN}


def test_a_delete_has_nulls_and_is_never_marked_even_if_the_order_is_there_again() -> None:
    for found in (seen(), seen(THEN + MICROSECOND, THEN + MICROSECOND), SEEN.empty_table()):
        (row,) = judged(changes((7, "d", 900, THEN)), found, RESULT).to_pylist()
        assert row == {**dict.fromkeys([*RESULT.values, *MOMENT]), "is_raced": False}


def test_changes_keep_their_sequence_and_only_the_last_of_an_order_is_unmarked() -> None:
    orders = changes(
        (7, "c", 900, THEN - MICROSECOND),
        (9, "c", 901, THEN - MICROSECOND),
        (7, "u", 902, THEN),
        (9, "d", 903, THEN),
    )
    found = judged(orders, seen(), RESULT)
    assert found["is_raced"].to_pylist() == [True, True, False, False]
    assert found["client_name"].to_pylist() == ["Ada", None, "Ada", None]


def test_rows_of_any_result_are_judged_by_its_own_key() -> None:
    columns = {"kilos": "array<decimal(5,2)>", "a code": "string", "no": "int"}
    parcels = Result(columns, ("a code", "no"), None)
    times = (THEN, THEN, True, None, None)
    rows = [
        ('{"op": "u", "a code": "x", "no": 1, "kilos": [2.5, null]}', *[None] * 5),
        ('{"op": "d", "a code": "x", "no": 1}', *times),
        ('{"op": "d", "a code": "x", "no": 2}', *times),
        (None, None, None, None, *MOMENT_SEEN.values()),
    ]
    keys = [("x", 1), ("y", 1), ("x", 2)]
    found = row_lookup._as_arrow(keys, rows, parcels)
    asked = changes((1, "u", 900, THEN), (2, "c", 901, THEN), (1, "d", 902, THEN))
    asked = asked.set_column(0, "a code", pa.array(["y", "x", "x"]))
    asked = asked.append_column("no", pa.array([1, 1, 2]))
    judgement = judged(asked, pa.Table.from_batches([found]), parcels)
    assert judgement.column_names == ["kilos", "is_raced", *MOMENT]
    assert judgement["kilos"].to_pylist() == [None, [Decimal("2.50"), None], None]
    assert judgement["is_raced"].to_pylist() == [True, False, False]
    assert found["kilos"].to_pylist()[2] is None, "the view has no such row"


class RecordingSession:
    """Instead of Spark: keeps, as bytes, the function that executors would be sent."""

    defaultParallelism = 2  # noqa: N815

    def __init__(self) -> None:
        self.sent = b""

    @property
    def sparkContext(self) -> "RecordingSession":  # noqa: N802
        return self

    def createDataFrame(self, _: pa.Table) -> "RecordingSession":  # noqa: N802
        return self

    def coalesce(self, _: int) -> "RecordingSession":
        return self

    def mapInArrow(self, function: Callable, _: str) -> "RecordingSession":  # noqa: N802
        self.sent = cloudpickle.dumps(function)
        return self

    def toArrow(self) -> pa.Table:  # noqa: N802
        return SEEN.empty_table()


def test_executors_are_sent_the_password_of_one_role_and_no_other() -> None:
    canaries = {
        name: f"canary-of-{name}" for name in Settings.model_fields if name.endswith("_password")
    }
    session = RecordingSession()
    target = role_connection(Settings(**canaries), Role.BATCH_READER)
    many = pa.table({"order_id": range(row_lookup.ROWS_OF_THE_DRIVER + 1)})
    seen_now(session, Question(target, "SELECT 1", RESULT), many)
    sent = {name for name, canary in canaries.items() if canary.encode() in session.sent}
    assert sent == {"batch_reader_password"}


def test_a_connection_that_is_printed_does_not_show_its_password() -> None:
    target = role_connection(Settings(batch_reader_password="hidden"), Role.BATCH_READER)
    assert "hidden" not in f"{target} {target!r}"


SEATING = "(SELECT table_assignment_id FROM orders WHERE id = 1)"
LATER = [
    "UPDATE orders SET pizzas = pizzas WHERE id = 1",
    f"UPDATE table_assignment SET out_time = in_time WHERE id = {SEATING}",
    "UPDATE clients SET name = name || '!'",
    "UPDATE tables SET name = name || '!'",
    "UPDATE pizzas SET price = price + 1",
    "DELETE FROM pizzas WHERE id = (SELECT pizzas[1] FROM orders WHERE id = 1)",
    "DELETE FROM orders WHERE id = 1",
]
"""What can happen to an order and to all that it is read from, once it has been committed."""


WAL_POSITION = "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint"


@pytest.fixture
def shop(pizzeria: Settings):
    """The shop's own connection; every statement is a transaction."""
    with psycopg.connect(**pizzeria.connection(Login.SHOP), autocommit=True) as connection:
        yield connection


@pytest.fixture
def look_up(
    spark: "SparkSession", pizzeria: Settings, shop: psycopg.Connection
) -> Callable[..., list[dict]]:
    """Look orders up as changes of the transactions that wrote them last; None: one long ago."""

    def rows(*order_ids: int, committed_at: datetime | None = None) -> list[dict]:
        written = [committed_at or commit_time(shop, order_id) for order_id in order_ids]
        orders = changes(*((i, "u", 900, at) for i, at in zip(order_ids, written, strict=True)))
        return asked.rows(orders).to_pylist()

    asked = lookup_of(spark, pizzeria)
    return rows


def lookup_of(spark: "SparkSession", settings: Settings) -> RowLookup:
    reader = partial(role_connection, settings, Role.BATCH_READER)
    return RowLookup(spark, CATALOG, PLAN, reader)


def commit_time(connection: psycopg.Connection, order_id: int) -> datetime:
    query = "SELECT pg_xact_commit_timestamp(xmin) FROM orders WHERE id = %s"
    return connection.execute(query, [order_id]).fetchone()[0].astimezone(UTC)


def touch(connection: psycopg.Connection, order_id: int) -> datetime:
    """Write the order again, so that nothing it names is newer; when that was committed."""
    connection.execute("UPDATE orders SET pizzas = pizzas WHERE id = %s", [order_id])
    return commit_time(connection, order_id)


@pytest.fixture(params=[row_lookup.ROWS_OF_THE_DRIVER, 0], ids=["driver", "executors"])
def who_asks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_lookup, "ROWS_OF_THE_DRIVER", request.param)


@pytest.mark.spark
@pytest.mark.services
@pytest.mark.usefixtures("who_asks")
class TestOnTheDatabase:
    def test_rows_are_those_of_the_view(self, look_up: Callable, shop: psycopg.Connection) -> None:
        query = (
            "SELECT order_id, order_time, client_name, table_name, pizzas FROM order_enriched_in "
            "ORDER BY order_id"
        )
        view = {row[0]: row[1:] for row in shop.execute(query)}
        found = look_up(*view)
        assert len(found) > row_lookup.ROWS_OF_A_TASK / 10
        for row, (order_time, client, table, pizzas) in zip(found, view.values(), strict=True):
            assert (row["client_name"], row["table_name"]) == (client, table)
            assert row["order_time"] == order_time
            found_pizzas = [(item["pizza"], float(item["price"])) for item in row["pizzas"]]
            assert found_pizzas == [(item["pizza"], item["price"]) for item in pizzas]

    def test_nothing_that_stayed_as_it_was_is_marked(
        self, look_up: Callable, shop: psycopg.Connection
    ) -> None:
        touch(shop, 1), touch(shop, 2)
        assert [row["is_raced"] for row in look_up(1, 2)] == [False, False]

    @pytest.mark.parametrize("later", LATER)
    def test_what_changed_after_the_commit_is_marked(
        self, look_up: Callable, shop: psycopg.Connection, later: str
    ) -> None:
        committed_at = touch(shop, 1)
        shop.execute(later)
        (row,) = look_up(1, committed_at=committed_at)
        assert row["is_raced"]

    def test_a_later_commit_of_an_earlier_transaction_is_marked(
        self, look_up: Callable, shop: psycopg.Connection, pizzeria: Settings
    ) -> None:
        """The writer of the price has the lower transaction id, and commits second."""
        with psycopg.connect(**pizzeria.connection(Login.SHOP)) as earlier:
            earlier.execute("UPDATE pizzas SET price = price + 1")
            committed_at = touch(shop, 1)
        (row,) = look_up(1, committed_at=committed_at)
        assert row["is_raced"]

    def test_the_snapshot_is_what_was_seen_and_the_position_is_behind_all_of_it(
        self, look_up: Callable, shop: psycopg.Connection, pizzeria: Settings
    ) -> None:
        """One transaction is under way, one is committed just before; one order is not there."""
        query = "SELECT pg_current_xact_id()::text::bigint"
        with psycopg.connect(**pizzeria.connection(Login.SHOP)) as other:
            other.execute("UPDATE pizzas SET price = price + 100")
            (under_way,) = other.execute(query).fetchone()
            with shop.transaction():
                shop.execute("UPDATE clients SET name = 'seen ' || id")
                (committed,) = shop.execute(query).fetchone()
            (position,) = shop.execute(WAL_POSITION).fetchone()
            found, gone = look_up(1, 10**9, committed_at=THEN)
            (later,) = shop.execute(WAL_POSITION).fetchone()
            other.rollback()
        assert found["client_name"].startswith("seen ")
        assert all(item["price"] < 100 for item in found["pizzas"])
        for row in (found, gone):
            snapshot = DatabaseSnapshot.parse(row["snapshot"])
            assert under_way in snapshot.in_progress
            assert committed < snapshot.xmax
            assert committed not in snapshot.in_progress
            assert position <= row["wal_lsn"] <= later
        enriched = {name: gone[name] for name in RESULT.values}
        assert enriched == dict.fromkeys(RESULT.values)
        assert gone["is_raced"]

    def test_an_order_written_behind_a_savepoint_is_its_own_version(
        self, look_up: Callable, shop: psycopg.Connection
    ) -> None:
        with shop.transaction(), shop.transaction():
            shop.execute("UPDATE orders SET pizzas = pizzas WHERE id = 1")
        (row,) = look_up(1)
        assert not row["is_raced"]

    def test_repeated_and_unknown_pizzas_keep_their_places(
        self, look_up: Callable, shop: psycopg.Connection
    ) -> None:
        shop.execute("UPDATE orders SET pizzas = '{2,1,999999,2}' WHERE id = 1")
        names = dict(shop.execute("SELECT id, name FROM pizzas").fetchall())
        (row,) = look_up(1)
        assert [item["pizza"] for item in row["pizzas"]] == [names[2], names[1], None, names[2]]
        assert row["pizzas"][2]["price"] is None

    def test_connections_are_few_and_kept(
        self, look_up: Callable, shop: psycopg.Connection, spark: "SparkSession"
    ) -> None:
        query = (
            "SELECT array_agg(pid ORDER BY pid) FROM pg_stat_activity WHERE application_name = %s"
        )
        ids = [row[0] for row in shop.execute("SELECT id FROM orders")]
        look_up(*ids)
        (first,) = shop.execute(query, [kept_connection.APPLICATION_NAME]).fetchone()
        for _ in range(3):
            look_up(*ids)
        (last,) = shop.execute(query, [kept_connection.APPLICATION_NAME]).fetchone()
        assert 1 <= len(last) <= spark.sparkContext.defaultParallelism
        assert set(first) <= set(last)

    def test_connections_that_the_database_ended_are_opened_again(
        self, look_up: Callable, pizzeria: Settings, shop: psycopg.Connection
    ) -> None:
        committed_at = touch(shop, 1)
        assert len(look_up(1, committed_at=committed_at)) == 1
        with psycopg.connect(**pizzeria.connection(Role.ADMIN), autocommit=True) as admin:
            query = (
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                "WHERE application_name = %s"
            )
            (ended,) = admin.execute(query, [kept_connection.APPLICATION_NAME]).fetchone()
        assert ended > 0
        (row,) = look_up(1, committed_at=committed_at)
        assert row["client_name"] is not None
        assert not row["is_raced"]

    def test_a_refused_password_is_named(self, spark: "SparkSession", pizzeria: Settings) -> None:
        wrong = {"postgres_host": "localhost", "batch_reader_password": SecretStr("wrong")}
        settings = pizzeria.model_copy(update=wrong)
        target = role_connection(settings, Role.BATCH_READER)
        question = replace(lookup_of(spark, pizzeria).question, target=target)
        with pytest.raises(PostgresUnavailableError, match="LOCKSTEP_BATCH_READER_PASSWORD"):
            seen_now(spark, question, pa.table({"order_id": [1]}))


@pytest.mark.services
def test_a_database_that_does_not_come_back_is_named(postgres: Settings) -> None:
    gone = postgres.model_copy(update={"postgres_port": 1})
    target = role_connection(gone, Role.BATCH_READER)
    with pytest.raises(PostgresUnavailableError, match=r":1 .*does not answer"):
        kept_connection.answer(target, lambda c: c.execute("SELECT 1"), seconds_max=0.3)
