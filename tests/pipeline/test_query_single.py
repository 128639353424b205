"""Which queries are seen to give each fact one row. tests/pipeline/test_at_spark.py tries them."""

import pytest
from lockstep.pipeline.catalog import Catalog, Column, Table, TableName
from lockstep.pipeline.query.analysis import analyse

from tests.pipeline.histories import FILE, analysed
from tests.pipeline.shapes import PIZZERIA, SHAPES

JOINED = "SELECT o.id, c.name FROM orders o LEFT JOIN clients c ON"
"""An order has one table_assignment_id, which is a bigint as c.id is; order_time is no bigint."""
ITEMS = "FROM orders o LEFT JOIN items i ON i.order_id = o.id"
"""An order has several."""
EXPLODED = "FROM orders o LATERAL VIEW OUTER EXPLODE(o.pizzas) e AS x"
ONE = {
    "by the key": f"{JOINED} c.id = o.table_assignment_id",
    "by the key, with more": f"{JOINED} o.table_assignment_id = c.id AND c.city > 'A'",
    "by the key, and a constant": f"{JOINED} c.id = 1",
    "grouped": f"SELECT o.id, o.order_time, COUNT(*) AS n {ITEMS} GROUP BY o.id, o.order_time",
    "grouped by a name of the fact's": f"""
        SELECT o.id, c.name {ITEMS}
        LEFT JOIN clients c ON c.id = o.table_assignment_id
        GROUP BY o.id, c.name""",
    "grouped by an aggregate of the fact": f"""
        WITH one AS (SELECT o.id, COUNT(*) AS n {ITEMS} GROUP BY o.id)
        SELECT id, n, COUNT(*) AS m FROM one GROUP BY id, n""",
    "joined with a grouped query": """
        SELECT o.id, i.n FROM orders o
        LEFT JOIN (SELECT order_id, COUNT(*) AS n FROM items GROUP BY order_id) i
            ON i.order_id = o.id""",
    "distinct": f"SELECT DISTINCT o.id, o.order_time {ITEMS}",
}
SEVERAL = {
    "by no key": f"{JOINED} c.name = o.order_time",
    "by range": f"{JOINED} c.id > o.table_assignment_id",
    "by OR": f"{JOINED} c.id = o.id OR c.id = o.table_assignment_id",
    "by another column than the key": f"SELECT o.id, i.amount {ITEMS}",
    "by another type, whose cast may make keys equal": f"{JOINED} c.id = o.order_time",
    "by another type, of a query": """
        SELECT o.id, c.name FROM orders o
        LEFT JOIN (SELECT id, name FROM clients) c ON c.id = o.order_time""",
    "joined with a query of a child": """
        SELECT o.id, i.pizza FROM orders o
        LEFT JOIN (SELECT order_id, pizza_id AS pizza FROM items) i ON i.order_id = o.id""",
    "by a constant of another type": f"{JOINED} c.id = '1'",
    "grouped by a child": f"SELECT o.id, i.amount {ITEMS} GROUP BY o.id, i.amount",
    "grouped by a name of a child's": f"""
        SELECT o.id, c.name {ITEMS}
        LEFT JOIN clients c ON c.id = i.id
        GROUP BY o.id, c.name""",
    "grouped by an aggregate of a child": f"""
        WITH several AS (SELECT o.id, COUNT(*) AS n {ITEMS} GROUP BY o.id, i.amount)
        SELECT id, n FROM several GROUP BY id, n""",
    "distinct with a child": f"SELECT DISTINCT o.id, i.amount {ITEMS}",
    "an array's elements": f"SELECT o.id, x {EXPLODED}",
    "grouped by an array's elements": f"SELECT o.id, x {EXPLODED} GROUP BY o.id, x",
}


def test_the_pizzerias_orders_have_one_row_each() -> None:
    """Groups of what the order's own joins give; its pizzas are joined behind POSEXPLODE."""
    assert analysed(PIZZERIA, "order_id").is_one_row_a_fact


@pytest.mark.parametrize("name", ONE)
def test_what_gives_a_fact_one_row_is_seen(name: str) -> None:
    assert analysed(ONE[name]).is_one_row_a_fact


@pytest.mark.parametrize("name", SEVERAL)
def test_what_may_give_a_fact_several_rows_is_not_taken_for_one(name: str) -> None:
    assert not analysed(SEVERAL[name]).is_one_row_a_fact


@pytest.mark.parametrize(
    ("key", "reference", "is_one"),
    [
        ("numeric(10,2)", "numeric(10,2)", True),
        ("numeric(12,4)", "numeric(10)", True),
        ("numeric(20,15)", "numeric(30)", False),
        ("numeric(38,10)", "numeric(38)", False),
        ("text", "character varying(9)", True),
        ("text", "bigint", False),
        ("smallint", "bigint", True),
        ("double precision", "double precision", False),
    ],
)
def test_types_whose_comparison_in_spark_makes_keys_equal_are_not_compared(
    key: str, reference: str, *, is_one: bool
) -> None:
    """Spark compares numerics of together over 38 digits by fewer behind the point."""
    tables = (
        table("facts", Column("id", "bigint"), Column("ref", reference)),
        table("things", Column("code", key), Column("name", "text")),
    )
    sql = "SELECT f.id, t.name FROM facts f LEFT JOIN things t ON t.code = f.ref"
    query = analyse(sql, FILE, Catalog("some", tables), TableName.parse("facts"), ("id",))
    assert query.is_one_row_a_fact == is_one


def table(name: str, *columns: Column) -> Table:
    """Whose primary key is the first column."""
    return Table(TableName.parse(name), columns, (columns[0].name,))


def test_most_shapes_with_one_row_are_seen() -> None:
    seen = {name for name, sql in SHAPES.items() if analysed(sql).is_one_row_a_fact}
    assert {"chain of left joins", "posexplode, join, collected", "children counted"} <= seen
    assert not seen & {"explode", "window over children", "left join with more conditions"}
