"""The rows of an hourly table from a view's read and from tables, of columns that are made up here.

The fact has a key of two columns, which have other names in the result.
"""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from lockstep.batch.pipeline_rows import with_cut
from lockstep.batch.rows import from_tables, from_view
from lockstep.cdc.cuts import Cut
from lockstep.pipeline.catalog import Column, Table, TableName
from lockstep.pipeline.plan import Plan
from lockstep.pipeline.types import ddl
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tests.plant.planned import planned

pytestmark = pytest.mark.spark

AT = datetime(2026, 3, 28, 23, 59, tzinfo=UTC)
FACT = Table(
    TableName("public", "shipment"),
    (
        Column("depot", "text", False),
        Column("number", "bigint", False),
        Column("sent_at", "timestamp with time zone", False),
        Column("part_id", "integer"),
    ),
    ("depot", "number"),
)
PART = Table(
    TableName("public", "part"),
    (Column("id", "integer", False), Column("price", "numeric(8,2)")),
    ("id",),
)
QUERY = """
SELECT s.number AS `no-of-it`, s.depot AS `from`, s.sent_at, array(p.price) AS prices
FROM shipment AS s LEFT JOIN part AS p ON p.id = s.part_id
"""
MANIFEST = """
format_version = 1
sources = ["$source"]
semantics = "as_of_commit"
fact = "shipment"
key = ["from", "no-of-it"]
time = "sent_at"
"""
COLUMNS = {
    "no-of-it": "bigint",
    "from": "string",
    "sent_at": "timestamp",
    "prices": "array<decimal(8,2)>",
}
FACTS = [("a", 7, AT, 1), ("b", 7, AT, 9)]
CUT = Cut("a run", "5:5:", 17, AT)


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return planned(tmp_path, FACT, PART, query=QUERY, manifest=MANIFEST)


def test_tables_are_joined_and_each_row_has_its_own_facts_origin(
    spark: SparkSession, plan: Plan
) -> None:
    enriched = enriched_facts(spark.newSession(), plan)
    columns = {**COLUMNS, "window_date": "date", "run_id": "string", "origin": "int"}
    rows = with_cut(enriched, plan, columns, CUT).toArrow()
    assert rows.column_names == list(columns)
    assert sorted(tuple(row.values()) for row in rows.to_pylist()) == [
        (7, "a", AT, [Decimal("2.50")], date(2026, 3, 28), "a run", ord("a")),
        (7, "b", AT, [None], date(2026, 3, 28), "a run", ord("b")),
    ]


def test_an_hour_is_not_sorted_for_its_joins(spark: SparkSession, plan: Plan) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")  # JDBC says nothing of sizes
    enriched = enriched_facts(session, plan)
    assert "SortMergeJoin" not in enriched._jdf.queryExecution().executedPlan().toString()


def enriched_facts(session: SparkSession, plan: Plan) -> DataFrame:
    """FACTS joined with a part; the origin is the code of the depot."""
    types = {name.name: ddl(table.types) for name, table in plan.tables.items()}
    facts = session.createDataFrame(FACTS, types["shipment"])
    parts = session.createDataFrame([(1, Decimal("2.50"))], types["part"])
    tables = {
        FACT.name: facts.withColumn("row_xid", F.ascii("depot")),
        PART.name: parts,
    }
    return from_tables(session, plan, tables, 2, (), F.col("row_xid").alias("origin"))


def test_a_views_json_is_parsed_as_the_results_types(spark: SparkSession) -> None:
    read = spark.createDataFrame(
        [(900, "[1.5, null]", AT, "a", 7)],
        "row_xid int, prices string, sent_at timestamp, `from` string, `no-of-it` bigint",
    )
    found = from_view(read, COLUMNS, F.col("row_xid").alias("origin"))
    assert found.columns == [*COLUMNS, "origin"]
    (row,) = found.collect()
    assert (row["no-of-it"], row["from"]) == (7, "a")
    assert (row["prices"], row["origin"]) == ([Decimal("1.50"), None], 900)
