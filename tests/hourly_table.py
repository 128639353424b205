"""The data sets with known totals, and ways to look at the hourly table without Spark."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import psycopg
from lockstep.batch.run import BatchRun, run_pipeline
from lockstep.model.modes import ReadMode
from lockstep.model.window import Window
from lockstep.pipeline.project import read_project
from lockstep.settings import Settings
from lockstep.sources.delta import open_table, run_query
from pizzeria.names import CAPTURED_TABLES, MANIFEST, ORDERS_ENRICHED_BATCH, Login
from psycopg import sql
from pyspark.sql import SparkSession

SMALL_PIZZERIA = Path(__file__).parent / "data" / "small_pizzeria"
TOTALS = json.loads((SMALL_PIZZERIA / "totals.json").read_text(encoding="utf-8"))
DAYS = Window(datetime(2024, 2, 1, tzinfo=UTC), datetime(2024, 4, 1, tzinfo=UTC))


class Found(NamedTuple):
    """Totals of an hourly table, or of a part of it."""

    orders: int
    pizzas: int
    revenue: Decimal


EXPECTED = Found(TOTALS["orders"], TOTALS["pizzas"], Decimal(TOTALS["revenue"]))


def empty_pizzeria(settings: Settings) -> None:
    with psycopg.connect(**settings.connection(Login.OWNER)) as connection:
        tables = sql.SQL(", ").join(map(sql.Identifier, CAPTURED_TABLES))
        connection.execute(sql.SQL("TRUNCATE {} RESTART IDENTITY").format(tables))


def run_window(spark: SparkSession, settings: Settings, window: Window, mode: ReadMode) -> BatchRun:
    """The hourly run of the pizzeria's pipeline."""
    pipeline = read_project(settings.project).pipeline(MANIFEST)
    return run_pipeline(spark, settings, pipeline, window, mode)


def found(settings: Settings, where: str = "true") -> Found:
    """Totals of the hourly table, read without Spark."""
    table = open_table(settings.table_uri(ORDERS_ENRICHED_BATCH))
    query = f"""
        WITH items AS (SELECT order_id, unnest(pizzas) AS item FROM enriched WHERE {where})
        SELECT
            (SELECT count(*) FROM enriched WHERE {where}) AS orders,
            (SELECT count(*) FROM items) AS pizzas,
            (SELECT sum(item['price']) FROM items) AS revenue
    """
    (row,) = run_query(query, {"enriched": table}).read_all().to_pylist()
    orders, pizzas, revenue = row.values()
    return Found(orders, pizzas, revenue or Decimal(0))


def rows_of(settings: Settings) -> list[dict]:
    """The enriched columns of every row, by order: equal lists mean equal tables."""
    table = open_table(settings.table_uri(ORDERS_ENRICHED_BATCH))
    query = (
        "SELECT order_id, order_time, client_name, table_name, pizzas, window_date "
        "FROM enriched ORDER BY order_id"
    )
    return run_query(query, {"enriched": table}).read_all().to_pylist()


def origins_of(settings: Settings) -> dict[int, dict]:
    """What each order's row says of the row of `orders` that it was made of."""
    table = open_table(settings.table_uri(ORDERS_ENRICHED_BATCH))
    rows = run_query("SELECT order_id, origin FROM enriched", {"enriched": table}).read_all()
    return dict(zip(rows["order_id"].to_pylist(), rows["origin"].to_pylist(), strict=True))


def version_of(settings: Settings) -> int:
    return open_table(settings.table_uri(ORDERS_ENRICHED_BATCH)).version()
