"""A query over a few rows that is planned once: its rows change, and its plan does not."""

from decimal import Decimal

import pyarrow as pa
import pytest
from lockstep.enrich.few_rows import FewRows
from lockstep.pipeline.query.at import Rewritten
from pyspark.errors import ArithmeticException
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FACTS = pa.schema([("id", pa.int64()), ("name_id", pa.int64()), ("prices", pa.list_(pa.int32()))])
NAMES = pa.schema([("id", pa.int64()), ("name", pa.string())])
EMPTY = {"facts": FACTS.empty_table(), "names": NAMES.empty_table()}
JOINED = """
SELECT facts.id, upper(names.name) AS name, facts.prices,
    row_number() OVER (PARTITION BY names.name ORDER BY facts.id) AS place
FROM facts LEFT JOIN names ON names.id = facts.name_id
"""
KEEPING = [
    "SELECT facts.id, names.name FROM facts LEFT JOIN names ON names.id <= facts.name_id",
    "SELECT id, (SELECT max(name) FROM names) AS name FROM facts",
    "SELECT id, 'a' AS name FROM facts WHERE name_id NOT IN (SELECT id - 1 FROM names)",
]
"""Their plans have a broadcast, or a subquery."""


def few_rows(spark: SparkSession, text: str) -> FewRows:
    return FewRows(spark, Rewritten(text, None, None), EMPTY)


def facts(*rows: tuple[int, int, list[int] | None]) -> pa.Table:
    columns = [[row[place] for row in rows] for place in range(len(FACTS))]
    return pa.table(dict(zip(FACTS.names, columns, strict=True)), FACTS)


def names(**ids: int) -> pa.Table:
    return pa.table({"id": list(ids.values()), "name": list(ids)}, NAMES)


def rows_of(table: pa.Table) -> list[str]:
    """In an order of their own, and so the names of each."""
    rows = table.to_pylist()
    return sorted(repr({**row, "names": sorted(row["names"])}) for row in rows)


def test_each_run_has_the_rows_of_then(spark: SparkSession) -> None:
    query = few_rows(spark, JOINED)
    assert query.is_kept
    two = names(ada=1, bo=2)
    first = query.rows({"facts": facts((7, 1, [3, 4]), (8, 1, None)), "names": two})
    assert first.to_pylist() == [
        {"id": 7, "name": "ADA", "prices": [3, 4], "place": 1},
        {"id": 8, "name": "ADA", "prices": None, "place": 2},
    ]
    second = query.rows({"facts": facts((9, 2, []), (7, 3, [])), "names": two})
    assert sorted((row["id"], row["name"]) for row in second.to_pylist()) == [(7, None), (9, "BO")]
    third = query.rows({"facts": facts((9, 2, [])), "names": names(cleo=2)})
    assert [row["name"] for row in third.to_pylist()] == ["CLEO"]


def test_a_result_without_rows_has_its_columns(spark: SparkSession) -> None:
    query = few_rows(spark, JOINED)
    some = query.rows({"facts": facts((7, 1, [3])), "names": names(ada=1)})
    none = query.rows(EMPTY)
    assert (none.num_rows, none.schema) == (0, some.schema)


def test_it_gives_what_a_new_plan_gives(spark: SparkSession) -> None:
    """More rows than one batch of Arrow's has, and than Spark aggregates by hash."""
    count = 30_000
    text = """
        WITH each AS (SELECT name_id, explode(prices) AS price FROM facts),
        both AS (SELECT id, name FROM names UNION SELECT id, upper(name) AS name FROM names)
        SELECT name_id, count(*) AS n, collect_list(name) AS names, sum(price) AS total
        FROM each JOIN both ON both.id = each.name_id GROUP BY name_id"""
    tables = {
        "facts": facts(*((n, n % 5_000, [n, 2]) for n in range(count))),
        "names": names(**{f"name {n}": n for n in range(5_000)}),
    }
    query = few_rows(spark, text)
    assert query.is_kept
    found = query.rows(tables)
    session = spark.newSession()
    for name, table in tables.items():
        session.createDataFrame(table).createOrReplaceTempView(name)
    expected = session.sql(text).toArrow()
    assert found.schema == expected.schema
    assert rows_of(found) == rows_of(expected)


@pytest.mark.parametrize("text", KEEPING, ids=["range", "subquery", "not in"])
def test_a_plan_that_keeps_rows_is_not_kept_itself(spark: SparkSession, text: str) -> None:
    query = few_rows(spark, text)
    query.rows({"facts": facts((7, 1, None)), "names": names(ada=1)})
    found = query.rows({"facts": facts((8, 5, None)), "names": names(bo=5)})
    wanted = "a" if "NOT IN" in text else "bo"
    assert [(row["id"], row["name"]) for row in found.to_pylist()] == [(8, wanted)]
    assert not query.is_kept


def test_a_query_of_many_joins_is_kept(spark: SparkSession) -> None:
    joins = " ".join(
        f"LEFT JOIN names AS names{n} ON names{n}.id = facts.name_id" for n in range(12)
    )
    query = few_rows(spark, f"SELECT facts.id, names11.name FROM facts {joins}")
    assert query.is_kept
    found = query.rows({"facts": facts((7, 1, None)), "names": names(ada=1)})
    assert found.to_pylist() == [{"id": 7, "name": "ada"}]


def test_after_a_value_that_fails_it_goes_on(spark: SparkSession) -> None:
    query = few_rows(spark, "SELECT id, CAST(100 AS DECIMAL(5, 2)) / name_id AS share FROM facts")
    apache = spark._jvm.org.apache.spark
    active = apache.sql.SparkSession.active()
    with pytest.raises(ArithmeticException, match="Division by zero"):
        query.rows(EMPTY | {"facts": facts((1, 4, None), (2, 0, None))})
    found = query.rows(EMPTY | {"facts": facts((1, 4, None))})
    assert found["share"].to_pylist() == [Decimal(25)]
    assert apache.SparkEnv.get().memoryManager().executionMemoryUsed() == 0
    assert apache.sql.util.ArrowUtils.rootAllocator().getAllocatedMemory() == 0
    assert apache.sql.SparkSession.active() == active
