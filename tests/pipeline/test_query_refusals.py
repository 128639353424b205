"""What a pipeline's query may not be is refused, with its place in the author's file."""

import pytest
from lockstep.errors import exit_on_error
from lockstep.pipeline.catalog import TableName
from lockstep.pipeline.errors import CatalogError, Position, QueryRefusedError
from lockstep.pipeline.query.analysis import analyse

from tests.pipeline.histories import CATALOG, FILE, analysed

HERE = "<here>"
"""Stands before the place that is to be named, and is no part of the query."""

ITEMS = "FROM orders o LEFT JOIN items i ON i.order_id = o.id"
REFUSED = {
    # one SELECT
    "nothing": (f"{HERE}-- empty", "there is no SELECT in it"),
    "two statements": (f"SELECT id FROM orders;\n{HERE}SELECT 1", "one statement, and there are 2"),
    "no select": (f"{HERE}DELETE FROM orders", "is a SELECT, and this is DELETE"),
    "no SQL": (f"SELECT id\nFRO {HERE}orders", "no SQL of Spark: Invalid expression"),
    "an open quote": (f"{HERE}SELECT id, 'abc FROM orders", "Error tokenizing"),
    "an open parenthesis": (f"SELECT (id {HERE}FROM orders", "no SQL of Spark: Expecting"),
    # names
    "unknown table": (f"SELECT id FROM {HERE}ordrs", "no table public.ordrs: did you mean publ"),
    "unknown schema": (f"SELECT o.id FROM {HERE}plant.orders o", "no table plant.orders"),
    "unknown column": (f"SELECT {HERE}idd FROM orders", "has a column idd: did you mean id?"),
    "unknown column of a table": (
        f"SELECT o.id, {HERE}p.nmae FROM orders o LEFT JOIN pizzas p ON p.id = o.id",
        "p has no column nmae: did you mean name?",
    ),
    "unknown column of a WITH query": (
        f"WITH a AS (SELECT id AS x FROM orders) SELECT a.x AS id, {HERE}a.id AS y FROM a",
        "a has no column id",
    ),
    "unknown relation": (f"SELECT {HERE}x.id FROM orders", "there is no x in this SELECT"),
    "two columns of a name": (
        f"SELECT {HERE}id FROM orders LEFT JOIN pizzas ON pizzas.id = orders.id",
        "orders and pizzas have a column of this name: write orders.id",
    ),
    "two relations of a name": (
        f"SELECT {HERE}x.id FROM orders x LEFT JOIN pizzas x ON x.id = x.id",
        "two relations of this SELECT are called x",
    ),
    # the output
    "star": (f"SELECT {HERE}* FROM orders", "with `*` a new column of a table would change"),
    "star of a table": (f"SELECT id, {HERE}orders.* FROM orders", "name the columns"),
    "star in a WITH query": (f"WITH a AS (SELECT {HERE}* FROM orders) SELECT id FROM a", "name th"),
    "no name": (f"SELECT id, {HERE}id + 1 FROM orders", "has no name: add AS a_name"),
    "a name twice": (f"SELECT id, {HERE}order_time AS ID FROM orders", "two output columns ID"),
    "reserved": (f"SELECT id, {HERE}order_time AS tx_id FROM orders", "Lockstep's own in every r"),
    "a version's column": (f"SELECT id AS {HERE}valid_from FROM orders", "Lockstep's own in every"),
    "a column of a run's reads": (f"SELECT {HERE}id AS row_xid FROM orders", "Lockstep's own in e"),
    "no key": (f"{HERE}SELECT id AS x FROM orders", "key column id of pipeline.toml is not in the"),
    # clauses
    "order by": (f"SELECT id FROM orders ORDER BY {HERE}id", "a result has no order"),
    "limit": (f"SELECT id FROM orders LIMIT {HERE}3", "LIMIT is not supported here"),
    "qualify": (
        f"SELECT id FROM orders QUALIFY {HERE}RANK() OVER (PARTITION BY id ORDER BY id) = 1",
        "compute the window function in a derived table",
    ),
    "rollup": (f"SELECT id FROM orders GROUP BY ROLLUP ({HERE}id)", "with columns alone"),
    "using": (f"SELECT o.id FROM orders o LEFT JOIN pizzas p USING ({HERE}id)", "write ON a.x = b"),
    "natural": (f"SELECT 1 AS id FROM orders {HERE}NATURAL JOIN pizzas", "NATURAL JOIN is not"),
    "comma": (f"SELECT 1 AS id FROM orders, {HERE}pizzas", "CROSS JOIN is not supported"),
    "cross": (f"SELECT 1 AS id FROM orders {HERE}CROSS JOIN pizzas", "CROSS JOIN is not supported"),
    "no on": (f"SELECT o.id FROM orders o {HERE}JOIN pizzas p", "without ON multiplies rows"),
    "on true": (
        f"SELECT o.id FROM orders o {HERE}LEFT JOIN pizzas p ON TRUE",
        "without ON multiplies rows",
    ),
    "full": (
        f"SELECT o.id FROM orders o {HERE}FULL OUTER JOIN pizzas p ON p.id = o.id",
        "FULL OUTER JOIN is not supported",
    ),
    "right": (
        f"SELECT o.id FROM pizzas p {HERE}RIGHT JOIN orders o ON p.id = o.id",
        "RIGHT JOIN is not supported",
    ),
    "recursive": (f"WITH RECURSIVE {HERE}a AS (SELECT id FROM orders) SELECT id FROM a", "recurs"),
    "no alias": (f"SELECT id FROM (SELECT {HERE}id FROM orders)", "needs a name"),
    "values": (
        f"SELECT o.id FROM orders o {HERE}LEFT JOIN STACK(1, 2) s ON s.x = 1",
        "only tables, WITH queries and ( SELECT … ) AS name may be joined",
    ),
    "sample": (f"SELECT id FROM orders TABLESAMPLE ({HERE}3 ROWS)", "SAMPLE is not supported"),
    "query in ON": (
        (
            "SELECT o.id FROM orders o LEFT JOIN pizzas p "
            f"ON p.id = (SELECT {HERE}MAX(c.id) FROM clients c)"
        ),
        "in a JOIN's condition",
    ),
    "aggregate in a derived table": (
        f"SELECT o.id FROM orders o LEFT JOIN (SELECT {HERE}SUM(id) AS n FROM pizzas) p ON p.n = 1",
        "makes one row of everything",
    ),
    "aggregate in IN": (
        f"SELECT id, id IN (SELECT {HERE}COUNT(*) FROM pizzas) AS x FROM orders",
        "makes one row of everything",
    ),
    "a name of the query around": (
        f"SELECT o.id, (SELECT {HERE}MAX(o.price) FROM pizzas o) AS x FROM orders o",
        "o is a name of the query around it, too",
    ),
    # the way of the fact
    "where": (f"SELECT id FROM orders {HERE}WHERE id > 3", "WHERE could drop a fact"),
    "where in a WITH query": (
        f"WITH a AS (SELECT id FROM orders {HERE}WHERE id > 3) SELECT id FROM a",
        "WHERE could drop a fact",
    ),
    "having": (
        f"SELECT o.id, COUNT(*) AS n {ITEMS} GROUP BY o.id {HERE}HAVING COUNT(*) > 1",
        "HAVING could drop a fact",
    ),
    "inner join": (
        f"SELECT o.id FROM orders o {HERE}JOIN pizzas p ON p.id = o.id",
        "INNER JOIN could drop a fact, and what is not in the result cannot be compared: write LEF",
    ),
    "anti join": (
        f"SELECT o.id FROM orders o {HERE}LEFT ANTI JOIN pizzas p ON p.id = o.id",
        "LEFT ANTI JOIN could drop a fact",
    ),
    "explode": (
        f"SELECT id, x FROM orders {HERE}LATERAL VIEW EXPLODE(pizzas) e AS x",
        "LATERAL VIEW without OUTER could drop a fact",
    ),
    "union": (f"SELECT {HERE}id FROM orders UNION ALL SELECT id FROM pizzas", "drop facts or mix"),
    "no fact": (f"SELECT id FROM {HERE}pizzas", "not from the fact public.orders: begin with FROM"),
    "fact joined": (
        f"SELECT p.id FROM {HERE}pizzas p LEFT JOIN orders o ON o.id = p.id",
        "come from public.pizzas, not from the fact",
    ),
    "fact twice": (
        f"SELECT o.id, n.id AS x FROM orders o LEFT JOIN {HERE}orders n ON n.id = o.id",
        "the fact public.orders is used twice",
    ),
    "its WITH query twice": (
        (
            "WITH a AS (SELECT id FROM orders) "
            f"SELECT a.id, b.id AS x FROM a LEFT JOIN {HERE}a AS b ON b.id = a.id"
        ),
        "the fact public.orders is used twice",
    ),
    "fact in a scalar query": (
        f"SELECT id, (SELECT COUNT(*) FROM {HERE}orders p) AS n FROM orders",
        "the fact public.orders is used twice",
    ),
    "groups of several facts": (
        f"SELECT {HERE}table_assignment_id AS id, COUNT(*) AS n FROM orders GROUP BY 1",
        "do not hold the key of public.orders, so facts would be merged: add id of orders to GROUP",
    ),
    "distinct": (f"SELECT DISTINCT {HERE}order_time AS id FROM orders", "merges facts: add id of"),
    "window over facts": (
        f"SELECT id, {HERE}RANK() OVER (ORDER BY order_time) AS r FROM orders",
        "reaches over rows of several orders: add id of orders to PARTITION BY",
    ),
    # functions
    "rand": (f"SELECT id, {HERE}RAND() AS r FROM orders", "gives another result each time"),
    "quoted": (f"SELECT id, {HERE}`uuid`() AS r FROM orders", "gives another result each time"),
    "now": (f"SELECT id, {HERE}now() AS r FROM orders", "use a column of the fact, such as its ti"),
    "bare": (f"SELECT id, {HERE}current_date AS r FROM orders", "gives another result each time"),
    "clock": (f"SELECT id, {HERE}UNIX_TIMESTAMP() AS r FROM orders", "another result each time"),
    "max_by": (f"SELECT o.id, {HERE}MAX_BY(i.id, i.amount) AS x {ITEMS} GROUP BY 1", "may win"),
    "first": (f"SELECT o.id, {HERE}FIRST(i.amount) AS x {ITEMS} GROUP BY o.id", "any of the value"),
    "any_value": (f"SELECT o.id, {HERE}ANY_VALUE(i.id) AS x {ITEMS} GROUP BY o.id", "any of the v"),
    "collect_list": (
        f"SELECT o.id, {HERE}COLLECT_LIST(i.id) AS x {ITEMS} GROUP BY o.id",
        "that of arrival: write ARRAY_SORT",
    ),
    "sorted by a lambda": (
        f"SELECT o.id, ARRAY_SORT({HERE}COLLECT_LIST(i.id), (a, b) -> 0) AS x {ITEMS} GROUP BY 1",
        "without a lambda",
    ),
    "plus before a column": (f"SELECT {HERE}+id AS id FROM orders", "makes a number of it"),
    "plus in a condition": (
        f"SELECT o.id {ITEMS} LEFT JOIN pizzas p ON p.name = {HERE}+i.amount",
        "makes a number of it",
    ),
    "exists in a condition": (
        (
            "SELECT o.id FROM orders o LEFT JOIN clients c ON c.id = o.id "
            f"AND EXISTS (SELECT {HERE}1 FROM items i WHERE i.id = c.id)"
        ),
        "in a JOIN's condition",
    ),
    "generator": (f"SELECT id, {HERE}EXPLODE(pizzas) AS x FROM orders", "multiplies rows unseen"),
    "order with equals": (
        (
            "SELECT o.id, i.id AS item_id, "
            f"{HERE}ROW_NUMBER() OVER (PARTITION BY o.id ORDER BY i.amount) AS r {ITEMS}"
        ),
        "may come in any order: end it with i.id, o.id",
    ),
    "frame with equals": (
        (
            "SELECT o.id, i.id AS item_id, "
            f"{HERE}SUM(i.amount) OVER (PARTITION BY o.id ORDER BY i.amount ROWS 1 PRECEDING) AS r "
            f"{ITEMS}"
        ),
        "may come in any order",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_allowed_is_refused_at_its_place(name: str) -> None:
    marked, why = REFUSED[name]
    before, _, after = marked.partition(HERE)
    with pytest.raises(QueryRefusedError) as caught:
        analysed(before + after)
    assert why in str(caught.value)
    line, column = before.count("\n") + 1, len(before.rpartition("\n")[2]) + 1
    assert caught.value.position == Position(line, column)
    assert str(caught.value).startswith(f"{FILE}:{line}:{column}: `")


def test_a_long_text_is_shortened_to_one_line() -> None:
    with pytest.raises(QueryRefusedError) as caught:
        analysed(f"SELECT id FROM orders WHERE\n id IN ({', '.join(map(str, range(99)))})")
    assert "`WHERE id IN (0, 1, 2," in str(caught.value)
    assert len(str(caught.value)) < 250


def test_a_refusal_is_one_line_for_the_author(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit), exit_on_error():
        analysed("SELECT id FROM ordrs")
    assert capsys.readouterr().err.count("\n") == 1


def test_a_fact_that_is_in_no_catalog_is_refused() -> None:
    with pytest.raises(CatalogError, match=r"no table public\.order:"):
        analyse("SELECT id FROM orders", FILE, CATALOG, TableName("public", "order"), ["id"])
