"""The hourly run: exact totals in both read modes, one window replaced, one snapshot read."""

from contextlib import AbstractContextManager
from datetime import timedelta
from decimal import Decimal

import psycopg
import pytest
from lockstep.accounts import Role
from lockstep.batch.reading import Reading, reading
from lockstep.cdc.cuts import Cut, mark_cut
from lockstep.cdc.run_commits import RunCommit
from lockstep.model.modes import ReadMode
from lockstep.model.window import Window
from lockstep.pipeline.project import read_project
from lockstep.settings import Settings
from lockstep.sinks import hourly_table
from lockstep.sources.delta import open_table
from lockstep.sources.postgres import connect
from pizzeria.names import MANIFEST, ORDERS_ENRICHED_BATCH, Login
from pyspark.sql import SparkSession

from tests.hourly_table import (
    DAYS,
    EXPECTED,
    TOTALS,
    Found,
    found,
    origins_of,
    rows_of,
    run_window,
    version_of,
)

pytestmark = [pytest.mark.spark, pytest.mark.services]

HOUR = Window.parse("2024-02-28T12:00Z", "2024-02-28T13:00Z")


@pytest.mark.parametrize("mode", ReadMode)
def test_all_days_at_once_give_the_data_sets_totals(
    spark: SparkSession, pizzeria: Settings, mode: ReadMode
) -> None:
    run_window(spark, pizzeria, DAYS, mode)
    assert found(pizzeria) == EXPECTED


def test_both_read_modes_give_the_same_rows(spark: SparkSession, pizzeria: Settings) -> None:
    run_window(spark, pizzeria, DAYS, ReadMode.VIEW)
    from_view = rows_of(pizzeria)
    run_window(spark, pizzeria, DAYS, ReadMode.TABLES)
    assert from_view == rows_of(pizzeria)
    assert len(from_view) == EXPECTED.orders


@pytest.mark.parametrize("mode", ReadMode)
def test_a_row_knows_the_row_that_it_was_made_of(
    spark: SparkSession, pizzeria: Settings, mode: ReadMode
) -> None:
    with psycopg.connect(**pizzeria.connection(Login.SHOP)) as shop:
        inserted = shop.execute(
            "UPDATE orders SET pizzas = '{2,1,2}' WHERE id = 1 "
            "RETURNING pg_current_xact_id()::text::bigint"
        ).fetchone()
        shop.commit()
        (committed,) = shop.execute("SELECT clock_timestamp()").fetchone()
    run_window(spark, pizzeria, DAYS, mode)
    origins = origins_of(pizzeria)
    origin = origins[1]
    assert (origin["tx_id"],) == inserted
    assert abs(origin["committed_at"] - committed) < timedelta(seconds=5)
    assert all(order["tx_id"] < inserted[0] for id_, order in origins.items() if id_ != 1)


def test_a_table_of_before_a_column_gets_it(spark: SparkSession, pizzeria: Settings) -> None:
    run_window(spark, pizzeria, DAYS, ReadMode.VIEW)
    uri = pizzeria.table_uri(ORDERS_ENRICHED_BATCH)
    older = spark.read.format("delta").load(uri).drop("origin")
    writer = older.write.format("delta").mode("overwrite").partitionBy("window_date")
    writer.option("overwriteSchema", "true").save(uri)
    run_window(spark, pizzeria, HOUR, ReadMode.VIEW)
    assert found(pizzeria) == EXPECTED
    known = {id_ for id_, origin in origins_of(pizzeria).items() if origin is not None}
    assert len(known) == TOTALS["by_hour"]["2024-02-28T12:00:00Z"]["orders"]


@pytest.mark.parametrize("mode", ReadMode)
def test_a_second_run_changes_nothing_but_the_cut(
    spark: SparkSession, pizzeria: Settings, mode: ReadMode
) -> None:
    run_window(spark, pizzeria, HOUR, mode)
    first = rows_of(pizzeria)
    run_window(spark, pizzeria, HOUR, mode)
    assert rows_of(pizzeria) == first


def test_a_run_replaces_its_window_and_no_other(spark: SparkSession, pizzeria: Settings) -> None:
    run_window(spark, pizzeria, DAYS, ReadMode.VIEW)
    with psycopg.connect(**pizzeria.connection(Login.SHOP)) as shop:
        shop.execute("UPDATE pizzas SET price = 1")
    run_window(spark, pizzeria, HOUR, ReadMode.VIEW)
    inside = "order_time >= '2024-02-28T12:00:00Z' AND order_time < '2024-02-28T13:00:00Z'"
    hour = TOTALS["by_hour"]["2024-02-28T12:00:00Z"]
    assert found(pizzeria, inside) == Found(hour["orders"], hour["pizzas"], hour["pizzas"])
    rest = found(pizzeria, f"NOT ({inside})")
    assert rest.revenue == EXPECTED.revenue - Decimal(hour["revenue"])


def test_windows_are_half_open(spark: SparkSession, pizzeria: Settings) -> None:
    with psycopg.connect(**pizzeria.connection(Login.SHOP)) as shop:
        (bound,) = shop.execute("SELECT order_time FROM orders ORDER BY id LIMIT 1").fetchone()
        (orders,) = shop.execute(
            "SELECT count(*) FROM orders WHERE order_time = %s", (bound,)
        ).fetchone()
    hour = timedelta(hours=1)
    run_window(spark, pizzeria, Window(bound - hour, bound), ReadMode.VIEW)
    assert found(pizzeria, f"order_time = '{bound.isoformat()}'").orders == 0
    run_window(spark, pizzeria, Window(bound, bound + hour), ReadMode.VIEW)
    assert found(pizzeria, f"order_time = '{bound.isoformat()}'").orders == orders


@pytest.mark.parametrize("mode", ReadMode)
def test_a_quiet_window_is_a_commit_without_rows(
    spark: SparkSession, pizzeria: Settings, mode: ReadMode
) -> None:
    run_window(spark, pizzeria, HOUR, mode)
    before = version_of(pizzeria)
    quiet = Window.parse("2023-01-01T00:00Z", "2023-01-01T01:00Z")
    run = run_window(spark, pizzeria, quiet, mode)
    assert run.commit.orders_at_cut == 0
    assert version_of(pizzeria) == before + 1


def test_the_very_first_window_may_be_quiet(spark: SparkSession, pizzeria: Settings) -> None:
    quiet = Window.parse("2023-01-01T00:00Z", "2023-01-01T01:00Z")
    run_window(spark, pizzeria, quiet, ReadMode.VIEW)
    assert found(pizzeria) == Found(0, 0, Decimal(0))


@pytest.mark.parametrize("mode", ReadMode)
def test_what_is_unknown_or_empty_is_kept(
    spark: SparkSession, pizzeria: Settings, mode: ReadMode
) -> None:
    with psycopg.connect(**pizzeria.connection(Login.SHOP)) as shop:
        shop.execute("UPDATE orders SET pizzas = '{1,9999,1}' WHERE id = 1")
        shop.execute("UPDATE orders SET pizzas = '{}' WHERE id = 2")
    run_window(spark, pizzeria, DAYS, mode)
    first, second = rows_of(pizzeria)[:2]
    assert [item["pizza"] is None for item in first["pizzas"]] == [False, True, False]
    assert second["pizzas"] == []


def test_the_commit_and_the_rows_carry_the_cut(spark: SparkSession, pizzeria: Settings) -> None:
    run = run_window(spark, pizzeria, HOUR, ReadMode.VIEW)
    table = open_table(pizzeria.table_uri(ORDERS_ENRICHED_BATCH))
    assert RunCommit.from_json(table.history(1)[0]["userMetadata"]) == run.commit
    row = table.to_pandas().iloc[0]
    cut = run.commit.cut
    assert (row.run_id, row.cut_snapshot, row.cut_lsn) == (
        cut.run_id,
        cut.snapshot,
        cut.marker_lsn,
    )


def test_every_partition_reads_the_same_snapshot(spark: SparkSession, pizzeria: Settings) -> None:
    """Data changes between the first partition's read and the second's: nothing of it is seen."""
    with (
        connect(pizzeria, Login.SHOP) as shop,
        reading_of(spark, pizzeria, batch_slice_rows=60) as read,
    ):
        view = read.result(ReadMode.VIEW)
        assert view.rows.rdd.getNumPartitions() >= 4
        rows = view.rows.rdd.toLocalIterator()
        found = [next(rows)]  # the first partition is read; the others have not begun
        shop.execute("DELETE FROM orders WHERE id > 150")
        shop.execute("UPDATE clients SET name = 'Renamed'")
        shop.execute(
            "INSERT INTO orders (table_assignment_id, order_time, pizzas) "
            "SELECT table_assignment_id, order_time + interval '1 s', pizzas FROM orders"
        )
        found += rows
    assert len(found) == view.count == EXPECTED.orders
    assert "Renamed" not in {row.client_name for row in found}


def test_tables_are_read_under_the_same_snapshot(spark: SparkSession, pizzeria: Settings) -> None:
    with connect(pizzeria, Login.SHOP) as shop, reading_of(spark, pizzeria) as read:
        rows = read.outputs(ReadMode.TABLES)
        shop.execute("UPDATE clients SET name = 'Renamed'")
        found = rows.collect()
    assert len(found) == EXPECTED.orders
    assert "Renamed" not in {row.client_name for row in found}


def reading_of(
    spark: SparkSession, settings: Settings, **changed: int
) -> AbstractContextManager[Reading]:
    pipeline = read_project(settings.project).pipeline(MANIFEST)
    return reading(spark, settings.model_copy(update=changed), pipeline, DAYS)


def test_the_snapshot_comes_before_the_marker(
    spark: SparkSession, pizzeria: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An order committed between the two is not in the table, and lies before the marker."""
    before_marker = []

    def order_then_mark(*arguments: object, **options: object) -> Cut:
        with connect(pizzeria, Login.SHOP) as shop:
            shop.execute(
                "INSERT INTO orders (table_assignment_id, order_time, pizzas) "
                "VALUES (1, %s, '{1}')",
                (HOUR.start,),
            )
            before_marker.extend(
                shop.execute("SELECT (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint").fetchone()
            )
        return mark_cut(*arguments, **options)

    monkeypatch.setattr("lockstep.batch.run.mark_cut", order_then_mark)
    run = run_window(spark, pizzeria, HOUR, ReadMode.VIEW)
    hour = TOTALS["by_hour"]["2024-02-28T12:00:00Z"]
    assert found(pizzeria).orders == run.commit.orders_at_cut == hour["orders"]
    assert before_marker[0] <= run.commit.cut.marker_lsn


@pytest.mark.parametrize("written_by", ["replace_window", "replace_collected"])
def test_a_session_lost_after_the_commit_is_no_failure(
    spark: SparkSession, pizzeria: Settings, monkeypatch: pytest.MonkeyPatch, written_by: str
) -> None:
    """The first hour of a table is written by Spark, the next without it."""
    if written_by == "replace_collected":
        hour = timedelta(hours=1)
        earlier = Window(HOUR.start - hour, HOUR.end - hour)
        run_window(spark, pizzeria, earlier, ReadMode.VIEW)
    replace, lost = getattr(hourly_table, written_by), []

    def replace_then_lose_sessions(*arguments: object) -> None:
        replace(*arguments)
        with connect(pizzeria, Role.ADMIN) as admin:
            admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s",
                (str(Role.BATCH_READER),),
            )
        lost.append(True)

    monkeypatch.setattr(f"lockstep.batch.run.{written_by}", replace_then_lose_sessions)
    run = run_window(spark, pizzeria, HOUR, ReadMode.VIEW)
    assert lost
    inside = f"order_time >= '{HOUR.start.isoformat()}'"
    assert found(pizzeria, inside).orders == run.commit.orders_at_cut > 0
