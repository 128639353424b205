"""The rows of an hourly table, of columns that are made up here.

The fact has a key of two columns, which have other names in the result.
"""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from lockstep.batch.rows import with_cut, with_origin, with_read_origins
from lockstep.cdc.cuts import Cut
from lockstep.enrich.plans import bind, run
from lockstep.pipeline.catalog import Column, Table, TableName
from lockstep.pipeline.plan import Plan
from lockstep.pipeline.query.at import at_snapshot
from lockstep.pipeline.types import ddl
from lockstep.sources.slot_counts import CountedRows
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
CUT = Cut("a run", "500:500:", 17, AT)


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return planned(tmp_path, FACT, PART, query=QUERY, manifest=MANIFEST)


def test_tables_are_joined_and_each_row_has_its_own_facts_origin(
    spark: SparkSession, plan: Plan
) -> None:
    enriched = enriched_facts(spark.newSession(), plan)
    columns = {**COLUMNS, "window_date": "date", "run_id": "string", "origin": "struct"}
    rows = with_cut(enriched, plan, columns, CUT).toArrow()
    assert rows.column_names == list(columns)
    found = [tuple(row.values()) for row in rows.to_pylist()]
    assert sorted(found, key=lambda row: row[1]) == [
        (7, "a", AT, [Decimal("2.50")], date(2026, 3, 28), "a run", origin("a")),
        (7, "b", AT, [None], date(2026, 3, 28), "a run", origin("b")),
    ]


def origin(depot: str) -> dict:
    return {"tx_id": ord(depot), "committed_at": AT}


def enriched_facts(session: SparkSession, plan: Plan) -> DataFrame:
    """FACTS joined with a part; the transaction of each is the code of the depot."""
    types = {name.name: ddl(table.types) for name, table in plan.tables.items()}
    facts = session.createDataFrame(FACTS, types["shipment"])
    bind(facts, FACT.name)
    bind(session.createDataFrame([(1, Decimal("2.50"))], types["part"]), PART.name)
    read = facts.withColumns({"row_xid": F.ascii("depot"), "row_committed_at": F.lit(AT)})
    rows = with_read_origins(run(session, at_snapshot(plan.query)), CountedRows(read, 2), plan)
    return with_origin(rows, plan, CUT)
