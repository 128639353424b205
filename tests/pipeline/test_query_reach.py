"""Which rows a micro-batch fetches: steps of look-ups, and what they cannot reach."""

import pytest
from lockstep.pipeline.errors import Position, QueryRefusedError
from lockstep.pipeline.query.reach import join_edges, needed_rows

from tests.pipeline.histories import analysed
from tests.pipeline.shapes import PIZZERIA, SHAPES


def steps(sql: str, key: str = "id") -> list[str]:
    return [
        " AND ".join(
            f"{one.table.name}.{to} = {one.from_table.name}.{from_}" for to, from_ in one.equalities
        )
        + ("[]" if one.is_element else "")
        for one in needed_rows(analysed(sql, key))
    ]


def test_the_pizzerias_rows_are_reached_along_its_joins() -> None:
    assert steps(PIZZERIA, "order_id") == [
        "table_assignment.id = orders.table_assignment_id",
        "clients.id = table_assignment.client_id",
        "tables.id = table_assignment.table_id",
        "pizzas.id = orders.pizzas[]",
    ]


REACHED = {
    "the fact alone": [],
    "left join with more conditions": ["items.order_id = orders.id"],
    "posexplode, join, collected": ["pizzas.id = orders.pizzas[]"],
    "children counted": ["items.order_id = orders.id", "pizzas.id = items.pizza_id"],
    "children aggregated before": ["items.order_id = orders.id"],
    "children filtered and joined inside": [
        "items.order_id = orders.id",
        "pizzas.id = items.pizza_id",
    ],
    "correlated scalar query": ["items.order_id = orders.id"],
    "scalar query in an aggregate": ["items.order_id = orders.id", "pizzas.id = items.pizza_id"],
    "scalar query over a derived table": ["items.order_id = orders.id"],
    "exists": ["items.order_id = orders.id", "clients.id = orders.table_assignment_id"],
    "exists inside a with query": [
        "pizzas.id = orders.table_assignment_id",
        "items.pizza_id = pizzas.id",
    ],
    "union all of dimensions": [
        "clients.id = orders.table_assignment_id",
        "tables.id = orders.table_assignment_id",
    ],
    "a table joined with itself again": [
        "items.id = orders.id",
        "items.id = items.order_id",
        "items.id = items.order_id",
    ],
    "semi and anti joins of dimensions": [
        "clients.id = orders.table_assignment_id",
        "notes.city = clients.city",
    ],
}


@pytest.mark.parametrize("shape", REACHED)
def test_each_relation_is_reached_by_an_equality(shape: str) -> None:
    assert steps(SHAPES[shape]) == REACHED[shape]


def test_an_inner_join_is_followed_to_what_stands_before_it() -> None:
    sql = """
        SELECT o.id, d.text FROM orders o LEFT JOIN (
            SELECT c.id, n.text FROM plant.notes n JOIN clients c ON n.city = c.city
        ) d ON d.id = o.table_assignment_id"""
    assert steps(sql) == [
        "clients.id = orders.table_assignment_id",
        "notes.city = clients.city",
    ]


def test_the_edges_are_all_equalities_that_lead_to_a_relation() -> None:
    sql = """
        SELECT o.id, i.amount FROM orders o
        LEFT JOIN table_assignment t ON t.id = o.table_assignment_id
        LEFT JOIN items i ON i.order_id = o.id AND t.table_id = i.pizza_id"""
    assert steps(sql) == [
        "table_assignment.id = orders.table_assignment_id",
        "items.order_id = orders.id",
    ]
    edges = [pair for one in join_edges(analysed(sql)) for pair in one.equalities]
    assert edges == [
        ("id", "table_assignment_id"),
        ("order_id", "id"),
        ("pizza_id", "table_id"),
    ]


def test_all_equalities_of_two_tables_are_one_look_up_by_the_key_where_it_is_among_them() -> None:
    by_two = """
        SELECT o.id, i.amount FROM orders o
        LEFT JOIN items i ON i.order_id = o.id AND i.pizza_id = o.table_assignment_id"""
    assert steps(by_two) == [
        "items.order_id = orders.id AND items.pizza_id = orders.table_assignment_id"
    ]
    with_key = """
        SELECT o.id, i.amount FROM orders o
        LEFT JOIN items i ON i.order_id = o.id AND i.id = o.table_assignment_id"""
    assert steps(with_key) == ["items.id = orders.table_assignment_id"]
    of_other_tables = """
        SELECT o.id, i.amount FROM orders o
        LEFT JOIN table_assignment t ON t.id = o.table_assignment_id
        LEFT JOIN items i ON i.order_id = o.id AND i.pizza_id = t.table_id"""
    assert steps(of_other_tables)[1] == "items.order_id = orders.id"


RANGE = "each micro-batch would read all of it"
NOT_REACHED = {
    "by range": ((3, 19), "p is joined by range only"),
    "left join by OR": ((3, 19), "no equality leads from the fact to c"),
    "window of a dimension": ((8, 19), "no equality leads from the fact to r"),
    "scalar query that counts": ((4, 35), "no equality leads from the fact to clients"),
    "in": ((2, 66), "no equality leads from the fact to c"),
    "a with query used twice": ((6, 19), "no equality leads from the fact to b"),
}


@pytest.mark.parametrize("shape", NOT_REACHED)
def test_a_relation_without_an_equality_is_refused_at_its_place(shape: str) -> None:
    (line, _), why = NOT_REACHED[shape]
    with pytest.raises(QueryRefusedError, match=why) as caught:
        steps(SHAPES[shape])
    assert caught.value.position.line == line


@pytest.mark.parametrize(
    "joined",
    [
        "LEFT JOIN pizzas p ON p.name = o.id",  # a cast would be between the look-up and the row
        "LEFT JOIN pizzas p ON p.id + 1 = o.id",
        "LEFT JOIN pizzas p ON p.id <=> o.id",
        "LEFT JOIN (SELECT MAX(id) AS id FROM pizzas GROUP BY name) p ON p.id = o.id",
        (
            "LEFT JOIN (SELECT x.name, y.id FROM clients x LEFT JOIN pizzas y ON x.id = y.id) p"
            " ON p.id = o.id"
        ),
        "LEFT JOIN clients c ON o.id = o.table_assignment_id",
    ],
)
def test_an_equality_that_could_leave_out_rows_is_not_followed(joined: str) -> None:
    with pytest.raises(QueryRefusedError, match="no equality leads from the fact"):
        steps(f"SELECT o.id FROM orders o {joined}")


def test_an_unused_with_query_is_refused() -> None:
    with pytest.raises(QueryRefusedError, match="is not used: leave it out") as caught:
        steps("WITH a AS (SELECT id FROM pizzas) SELECT id FROM orders")
    assert caught.value.position == Position(1, 27)
