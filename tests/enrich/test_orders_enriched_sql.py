"""The pizzeria's query: what it keeps, and which version of a name or price it takes."""

from decimal import Decimal
from typing import Any

import pytest
from lockstep.enrich.plans import bind, run, run_at
from lockstep.pipeline.catalog import TableName
from lockstep.pipeline.plan import plan_named
from lockstep.pipeline.query.at import at_rewrite, at_snapshot
from pizzeria.names import MANIFEST
from pyspark.sql import DataFrame, SparkSession

from tests.project import PROJECT_DIR

pytestmark = pytest.mark.spark

NOON = "2015-01-01T12:00:00Z"
VALIDITY = ", valid_from bigint, valid_to bigint"
ORDERS = "id bigint, table_assignment_id bigint, order_time string, pizzas array<int>"
SCHEMAS = {
    "orders": ORDERS,
    "table_assignment": "id bigint, client_id bigint, table_id int",
    "clients": "id bigint, name string",
    "tables": "id int, name string",
    "pizzas": "id int, name string, price decimal(10,2)",
}
SNAPSHOT: dict[str, list[tuple[Any, ...]]] = {
    "orders": [(1, 10, NOON, [7, 8, 7])],
    "table_assignment": [(10, 100, 3)],
    "clients": [(100, "Ada")],
    "tables": [(3, "Table 3")],
    "pizzas": [(7, "Funghi", Decimal("9.50")), (8, "Marinara", Decimal("7.25"))],
}


QUERY = plan_named(PROJECT_DIR, MANIFEST).query


def relations(
    spark: SparkSession, rows: dict[str, list[tuple[Any, ...]]], extra: str = ""
) -> dict[TableName, DataFrame]:
    return {
        TableName("public", table): spark.createDataFrame(rows[table], schema + extra)
        for table, schema in SCHEMAS.items()
    }


def enriched_snapshot(spark: SparkSession, **changed: list[tuple[Any, ...]]) -> list[Any]:
    for table, rows in relations(spark, SNAPSHOT | changed).items():
        bind(rows, table)
    return run(spark, at_snapshot(QUERY)).orderBy("order_id").collect()


def enriched_at(
    spark: SparkSession, rows: dict[str, list[tuple[Any, ...]]], *points: tuple[int, int]
) -> list[Any]:
    """points: ids of orders and commits."""
    at = spark.createDataFrame(list(points), "id bigint, at_lsn bigint")
    found = run_at(spark, at_rewrite(QUERY), relations(spark, rows, VALIDITY), at)
    return found.orderBy("at_lsn").collect()


def test_an_order_gets_its_names_and_prices(spark: SparkSession) -> None:
    (order,) = enriched_snapshot(spark)
    assert (order.order_id, order.client_name, order.table_name) == (1, "Ada", "Table 3")
    assert order.pizzas[1].asDict() == {"pizza": "Marinara", "price": Decimal("7.25")}


def test_pizzas_keep_their_sequence_and_repetitions(spark: SparkSession) -> None:
    (order,) = enriched_snapshot(spark)
    assert [item.pizza for item in order.pizzas] == ["Funghi", "Marinara", "Funghi"]


def test_what_is_unknown_is_kept_as_nulls(spark: SparkSession) -> None:
    unknown_pizza, unknown_seating = enriched_snapshot(
        spark, orders=[(1, 10, NOON, [7, 999]), (2, 77, NOON, [8])]
    )
    assert [item.pizza for item in unknown_pizza.pizzas] == ["Funghi", None]
    assert (unknown_seating.client_name, unknown_seating.table_name) == (None, None)
    assert [item.pizza for item in unknown_seating.pizzas] == ["Marinara"]


def test_an_order_without_pizzas_has_an_empty_list(spark: SparkSession) -> None:
    (order,) = enriched_snapshot(spark, orders=[(1, 10, NOON, [])])
    assert order.pizzas == []


def test_two_equal_orders_stay_two(spark: SparkSession) -> None:
    orders = enriched_snapshot(spark, orders=[(1, 10, NOON, [7]), (2, 10, NOON, [7])])
    assert [order.order_id for order in orders] == [1, 2]


def test_names_and_prices_are_those_of_the_orders_commit(spark: SparkSession) -> None:
    always = (0, 2**63 - 1)
    rows = {
        "orders": [(n, 10, NOON, [7], commit, 2**63 - 1) for n, commit in ((1, 49), (2, 50))],
        "table_assignment": [(*SNAPSHOT["table_assignment"][0], *always)],
        "clients": [(100, "Ada", 0, 50), (100, "Ada Lovelace", 50, 2**63 - 1)],
        "tables": [(3, "Table 3", *always)],
        "pizzas": [
            (7, "Funghi", Decimal("9.50"), 0, 50),
            (7, "Funghi", Decimal("9.90"), 50, 2**63 - 1),
        ],
    }
    before, after = enriched_at(spark, rows, (1, 49), (2, 50))
    assert (before.client_name, before.pizzas[0].price) == ("Ada", Decimal("9.50"))
    assert (after.client_name, after.pizzas[0].price) == ("Ada Lovelace", Decimal("9.90"))


def test_each_version_of_an_order_is_a_row(spark: SparkSession) -> None:
    rows = {name: [(*row, 0, 2**63 - 1) for row in table] for name, table in SNAPSHOT.items()}
    rows["orders"] = [(1, 10, NOON, [7], 20, 30), (1, 10, NOON, [8, 8], 30, 2**63 - 1)]
    versions = enriched_at(spark, rows, (1, 20), (1, 30))
    assert [(row.at_lsn, len(row.pizzas)) for row in versions] == [(20, 1), (30, 2)]
