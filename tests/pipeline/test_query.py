"""What an analysed query says of itself: relations, outputs, lineage, and the rewritten text."""

import pytest
from lockstep.pipeline.errors import Position, QueryRefusedError
from lockstep.pipeline.query.analysis import Query
from lockstep.pipeline.query.at import at_rewrite, at_snapshot
from lockstep.pipeline.query.functions import AGGREGATES

from tests.pipeline.histories import analysed
from tests.pipeline.shapes import PIZZERIA, SHAPES


def lineage(query: Query, output: str) -> tuple[set[str], set[str]]:
    """The values of an output column, and what it depends on besides."""
    (found,) = (one for one in query.outputs if one.name == output)
    values = {str(one).removeprefix("public.") for one in found.values}
    return values, {str(one).removeprefix("public.") for one in found.depends} - values


@pytest.fixture(scope="module")
def pizzeria() -> Query:
    return analysed(PIZZERIA, "order_id")


def test_relations_have_the_columns_that_are_read_the_fact_first(pizzeria: Query) -> None:
    assert {str(one.table): one.columns for one in pizzeria.relations} == {
        "public.orders": ("id", "table_assignment_id", "order_time", "pizzas"),
        "public.table_assignment": ("id", "client_id", "table_id"),
        "public.clients": ("id", "name"),
        "public.tables": ("id", "name"),
        "public.pizzas": ("id", "name", "price"),
    }
    assert pizzeria.relations[0].table == pizzeria.fact


def test_columns_of_subqueries_are_read() -> None:
    query = analysed(SHAPES["scalar query with joins and OR"])
    assert {str(one.table): one.columns for one in query.relations} == {
        "public.orders": ("id",),
        "public.items": ("order_id", "pizza_id", "amount"),
        "public.pizzas": ("id", "name", "price"),
    }


def test_outputs_keep_the_authors_order_and_spelling() -> None:
    query = analysed("SELECT order_time AS Ordered, Orders.ID AS id FROM orders")
    assert [one.name for one in query.outputs] == ["Ordered", "id"]


def test_names_are_of_any_case() -> None:
    query = analysed("WITH Known AS (SELECT O.ID FROM Public.Orders O) SELECT k.id FROM KNOWN k")
    assert [(str(one.table), one.columns) for one in query.relations] == [
        ("public.orders", ("id",))
    ]
    assert "FROM `public.orders at` O) SELECT k.id, k.at_lsn FROM KNOWN k" in at_rewrite(query).text


@pytest.mark.parametrize("name", sorted(AGGREGATES))
def test_each_allowed_aggregate_is_known_as_one(name: str) -> None:
    arguments = "i.amount, 0.5" if name == "percentile" else "i.amount"
    joined = "FROM orders o LEFT JOIN items i ON i.order_id = o.id"
    with pytest.raises(QueryRefusedError, match="one row of everything"):
        analysed(f"SELECT {name}({arguments}) AS id {joined}")
    query = analysed(f"SELECT o.id, {name}({arguments}) AS x {joined} GROUP BY o.id")
    assert lineage(query, "x") == ({"items.amount"}, {"items.order_id", "orders.id"})


def test_lineage_goes_through_queries_aggregates_lambdas_and_explode(pizzeria: Query) -> None:
    values, decides = lineage(pizzeria, "pizzas")
    assert values == {"orders.pizzas", "pizzas.name", "pizzas.price"}
    assert decides == {"pizzas.id"}
    assert lineage(pizzeria, "order_time") == ({"orders.order_time"}, set())


def test_lineage_knows_what_decides_which_row_is_joined(pizzeria: Query) -> None:
    values, decides = lineage(pizzeria, "client_name")
    assert values == {"clients.name"}
    assert decides == {
        "clients.id",
        "orders.table_assignment_id",
        "table_assignment.client_id",
        "table_assignment.id",
    }


def test_lineage_of_a_count_is_what_decides_how_many_there_are() -> None:
    query = analysed(SHAPES["children filtered and joined inside"])
    values, decides = lineage(query, "dearest")
    assert values == {"pizzas.price"}
    assert {"items.amount", "items.order_id", "items.pizza_id", "pizzas.name"} <= decides


def test_lineage_of_a_union_is_of_all_its_sides() -> None:
    query = analysed(SHAPES["union all of dimensions"])
    assert lineage(query, "name")[0] == {"clients.name", "tables.name"}


def test_the_text_of_one_snapshot_is_the_authors_but_for_the_views(pizzeria: Query) -> None:
    text = at_snapshot(pizzeria).text
    for table in ("orders", "table_assignment", "clients", "tables", "pizzas"):
        text = text.replace(f"`public.{table}` AS {table}", table)
    assert text == PIZZERIA


@pytest.mark.parametrize("shape", SHAPES)
def test_the_rewritten_text_without_insertions_is_the_authors(shape: str) -> None:
    rewritten = at_rewrite(analysed(SHAPES[shape]))
    kept = rewritten._edited.pieces
    assert "".join(rewritten.text[start : start + length] for start, length, _ in kept) == (
        "".join(SHAPES[shape][source : source + length] for _, length, source in kept)
    )


@pytest.mark.parametrize(
    ("message", "position"),
    [
        ("[UNRESOLVED_COLUMN] `o`.`pizzas` cannot be resolved. line {line}, pos {pos};", (4, 7)),
        ("[SYNTAX] near 'x'(line {line}, pos {pos})\n== SQL ==", (4, 7)),
        ("[UNRESOLVED_COLUMN] with name `order_time`. Did you mean", (4, 30)),
        ("[UNRESOLVED_COLUMN] with name `id`", None),
        ("[X] nothing is named; line 99 pos 2", None),
        ("[X] nothing is named", None),
    ],
)
def test_a_message_of_spark_leads_to_the_authors_place(
    message: str, position: tuple[int, int] | None
) -> None:
    sql = (
        "SELECT o.id, c.name\nFROM orders o\nLEFT JOIN clients c ON c.id = o.id\n"
        "  AND o.pizzas[0] = LENGTH(o.order_time)"
    )
    rewritten = at_rewrite(analysed(sql))
    before = rewritten.text[: rewritten.text.index("o.pizzas")].split("\n")
    found = rewritten.author_position(message.format(line=len(before), pos=len(before[-1])))
    assert found == (position and Position(*position))


def test_a_place_in_an_insertion_is_where_it_was_inserted() -> None:
    rewritten = at_rewrite(analysed("SELECT id\nFROM orders"))
    lines = rewritten.text.split("\n")
    pos = lines[1].index("orders.at_lsn")
    assert lines[1] == "SELECT id, orders.at_lsn"
    assert rewritten.author_position(f"line 2, pos {pos}") == Position(1, 10)
    assert rewritten.author_position("line 1, pos 3") == Position(1, 1)
