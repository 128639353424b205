"""The enriched order: its columns, and the shared SQL over five bound relations."""

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from lockstep.pizzeria import ENRICHMENT_TABLES, PIPELINE
from lockstep.project import MARKER, read_project_file

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PIZZAS_TYPE = "array<struct<pizza: string, price: decimal(10, 2)>>"
# Any commit LSN is at least 0 and below this one, the largest bigint.
ALWAYS = ("0L", "9223372036854775807L")


@cache
def orders_enriched_sql() -> str:
    """The text of include/sql/pizzeria/orders_enriched.sql."""
    return read_project_file(MARKER / PIPELINE / "orders_enriched.sql")


def valid_always(rows: "DataFrame") -> "DataFrame":
    """The rows of one snapshot as a relation of the shared SQL: the truth at every commit."""
    valid_from, valid_to = ALWAYS
    return rows.selectExpr("*", f"{valid_from} AS valid_from", f"{valid_to} AS valid_to")


def enrich_orders(spark: "SparkSession", relations: Mapping[str, "DataFrame"]) -> "DataFrame":
    """One row for each row of `orders`, enriched with what was valid at its commit.

    relations: the five tables of contracts.ENRICHMENT_TABLES by name, each with valid_from and
        valid_to (bigint commit LSNs, half-open). They are bound as temporary views of `spark`,
        so concurrent callers need sessions of their own.
        `orders` has an origin, too, of any type, which passes through.
    Returns order_id, valid_from, order_time, client_name, table_name, pizzas
    (array<struct<pizza string, price decimal(10,2)>>) and origin, in no particular order.
    """
    for table in ENRICHMENT_TABLES:
        relations[table].createOrReplaceTempView(table)
    return spark.sql(orders_enriched_sql())
