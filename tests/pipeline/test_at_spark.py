"""The rewritten query at all points in one run is the plain query at each point.

Over random histories of a small source: several commits for a key, rows that come and go, nulls,
references to rows that are not there. A rewrite that leaves at_lsn out anywhere is not.
"""

import os
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from lockstep.pipeline.query import at, functions
from lockstep.pipeline.query.analysis import Query
from lockstep.pipeline.query.at import at_rewrite, at_snapshot, facts_view
from lockstep.pipeline.query.reach import needed_rows
from lockstep.pipeline.spark_functions import SPARK_FUNCTIONS
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.pipeline.histories import (
    SCHEMAS,
    History,
    analysed,
    random_history,
    random_points,
    valid_at,
)
from tests.pipeline.shapes import PIZZERIA, SHAPES
from tests.pipeline.test_query_single import ONE

pytestmark = pytest.mark.spark

HANDWRITTEN = Path(__file__).with_name("orders_enriched.sql").read_text(encoding="utf-8")

SEEDS = tuple(range(1, int(os.environ.get("AT_SEEDS", "1")) + 1))
"""So many random histories: one takes some 100 s."""
COMMITS = 6
FACT_IN_OTHER_PLACES = (
    "left join",
    "the fact in a derived table",
    "exists",
    "any value of the fact",
    "a with query used twice",
)
VIEW = re.compile(r"`(\w+\.\w+)`")
Rows = Counter[tuple[int, str]]
"""(point, row as text): rows hold arrays, structs and decimals, which compare by their text."""


class Evaluation:
    """One random history, bound once for all shapes: all versions, and the rows at each commit."""

    def __init__(self, spark: SparkSession, seed: int) -> None:
        print(f"seed {seed}")  # noqa: T201 - shown when a test fails
        rng = Random(seed)
        self.history: History = random_history(rng, COMMITS)
        self.points = random_points(rng, COMMITS)
        self.session = _session(spark)
        for table, schema in SCHEMAS.items():
            rows = [(*row, start, end) for row, start, end in self.history[table]]
            self.bind(table, rows, f"{schema}, valid_from long, valid_to long")
            for commit in range(COMMITS + 1):
                self.bind(f"{table} {commit}", list(valid_at(self.history, table, commit)), schema)
        self.bind("at", self.points, "id long, at_lsn long")

    def bind(self, name: str, rows: list[tuple], schema: str) -> None:
        bound = self.session.createDataFrame(rows, schema).coalesce(1)
        bound.createOrReplaceTempView(f"`{name}`")

    def at_all(self, text: str) -> Rows:
        rows = self.session.sql(text).collect()
        return Counter((row["at_lsn"], str(tuple(row)[:-1])) for row in rows)

    def at_each(self, sql: str, key: str) -> Rows:
        """The plain query over the rows valid at each point, of the keys that have the point."""
        text, points = at_snapshot(analysed(sql, key)).text, set(self.points)
        plain = []
        for commit in sorted({commit for _, commit in points}):
            at_commit = VIEW.sub(rf"`\1 {commit}`", text)
            plain.append(f"SELECT plain.*, {commit} AS at_lsn FROM ({at_commit}) AS plain")
        rows = self.session.sql(" UNION ALL ".join(plain)).collect()
        return Counter(
            (row["at_lsn"], str(tuple(row)[:-1]))
            for row in rows
            if (row[key], row["at_lsn"]) in points
        )


def _session(spark: SparkSession) -> SparkSession:
    """With views of its own; a few rows are not worth 200 partitions or compiling."""
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", 1)
    session.conf.set("spark.sql.codegen.wholeStage", False)
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    session.conf.set("spark.sql.adaptive.enabled", False)
    session.conf.set("spark.sql.autoBroadcastJoinThreshold", -1)
    return session


@pytest.fixture(scope="module")
def evaluation(spark: SparkSession) -> Callable[[int], Evaluation]:
    made: dict[int, Evaluation] = {}

    def of(seed: int) -> Evaluation:
        if seed not in made:
            made[seed] = Evaluation(spark, seed)
        return made[seed]

    return of


@pytest.mark.parametrize("seed", SEEDS)
def test_a_fact_that_is_seen_to_have_one_row_has_one(
    evaluation: Callable[[int], Evaluation], seed: int
) -> None:
    evaluated = evaluation(seed)
    seen = [analysed(sql) for sql in (*SHAPES.values(), *ONE.values())]
    for query in [one for one in seen if one.is_one_row_a_fact]:
        rows = evaluated.session.sql(at_rewrite(query).text).collect()
        found = Counter((row["id"], row["at_lsn"]) for row in rows)
        assert max(found.values()) == 1, query.sql


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_all_points_in_one_run_are_the_query_at_each_point(
    evaluation: Callable[[int], Evaluation], shape: str, seed: int
) -> None:
    evaluated, sql = evaluation(seed), SHAPES[shape]
    expected = evaluated.at_each(sql, "id")
    assert expected.total() > 5
    assert evaluated.at_all(at_rewrite(analysed(sql)).text) == expected


@pytest.mark.parametrize("shape", FACT_IN_OTHER_PLACES)
def test_facts_that_the_caller_binds_at_their_points_give_the_same(
    evaluation: Callable[[int], Evaluation], shape: str
) -> None:
    evaluated, query = evaluation(SEEDS[0]), analysed(SHAPES[shape])
    rows = evaluated.session.sql(
        f"SELECT fact.* EXCEPT (valid_from, valid_to), at_lsn FROM `{query.fact}` AS fact "
        "JOIN at ON at.id = fact.id AND valid_from <= at_lsn AND at_lsn < valid_to"
    )
    rows.createOrReplaceTempView(facts_view(query))
    bound = at_rewrite(query, finds_facts=False)
    assert evaluated.at_all(bound.text) == evaluated.at_all(at_rewrite(query).text)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_pizzerias_query_at_all_points_is_its_query_at_each(
    evaluation: Callable[[int], Evaluation], seed: int
) -> None:
    evaluated = evaluation(seed)
    found = evaluated.at_all(at_rewrite(analysed(PIZZERIA, "order_id")).text)
    assert found == evaluated.at_each(PIZZERIA, "order_id")


@pytest.mark.parametrize("seed", SEEDS)
def test_the_pizzerias_query_gives_what_its_handwritten_sql_gives(
    evaluation: Callable[[int], Evaluation], seed: int
) -> None:
    """Written by hand, each order at the commits that changed it."""
    evaluated = evaluation(seed)
    versions = evaluated.session
    changed = [(row[0], start) for row, start, _ in evaluated.history["public.orders"]]
    names = [name for name in SCHEMAS if name.startswith("public.")]
    relations = {name.removeprefix("public."): versions.table(f"`{name}`") for name in names}
    relations["orders"] = relations["orders"].selectExpr("*", "NULL AS origin")
    for name, rows in relations.items():
        rows.createOrReplaceTempView(name)
    expected = Counter(
        (row["valid_from"], str((row[0], *tuple(row)[2:-1])))
        for row in versions.sql(HANDWRITTEN).collect()
    )
    evaluated.bind("at", changed, "id long, at_lsn long")
    found = evaluated.at_all(at_rewrite(analysed(PIZZERIA, "order_id")).text)
    evaluated.bind("at", evaluated.points, "id long, at_lsn long")
    assert expected.total() > 5
    assert found == expected


REACHABLE = (
    "chain of left joins",
    "left join with more conditions",
    "posexplode, join, collected",
    "children filtered and joined inside",
    "scalar query with joins and OR",
    "scalar query over a derived table",
    "exists",
    "exists inside a with query",
    "semi and anti joins of dimensions",
    "union, except, intersect",
)


@pytest.mark.parametrize("shape", REACHABLE)
def test_the_rows_that_are_reached_are_enough(
    evaluation: Callable[[int], Evaluation], shape: str
) -> None:
    """A micro-batch of two keys: the rest of the history would not change its rows."""
    evaluated, query = evaluation(SEEDS[0]), analysed(SHAPES[shape])
    keys = {key for key, _ in evaluated.points[-8:]}
    fetched = reached_rows(query, evaluated.history, keys)
    restricted = at_rewrite(query).text
    for table, versions in fetched.items():
        bound = [(*row, start, end) for row, start, end in versions]
        evaluated.bind(f"{table} few", bound, f"{SCHEMAS[table]}, valid_from long, valid_to long")
        restricted = restricted.replace(f"`{table}`", f"`{table} few`")
    points = [point for point in evaluated.points if point[0] in keys]
    evaluated.bind("at", points, "id long, at_lsn long")
    expected, found = evaluated.at_all(at_rewrite(query).text), evaluated.at_all(restricted)
    evaluated.bind("at", evaluated.points, "id long, at_lsn long")
    assert sum(map(len, fetched.values())) < sum(map(len, evaluated.history.values())) / 2
    assert found == expected


def reached_rows(query: Query, history: History, keys: set[int]) -> History:
    """What a driver fetches: the fact's versions by key, then each step's by its column."""
    columns = {
        table: [one.split()[0] for one in schema.split(", ")] for table, schema in SCHEMAS.items()
    }
    fetched: History = {str(one.table): [] for one in query.relations}
    fetched[str(query.fact)] = [one for one in history[str(query.fact)] if one[0][0] in keys]
    for step in needed_rows(query):
        places = [columns[str(step.from_table)].index(name) for name in step.from_columns]
        values = [[row[place] for place in places] for row, _, _ in fetched[str(step.from_table)]]
        if step.is_element:
            values = [[value] for (array,) in values for value in array or ()]
        places = [columns[str(step.table)].index(name) for name in step.columns]
        known = fetched[str(step.table)]
        known += [
            one
            for one in history[str(step.table)]
            if (found := [one[0][place] for place in places])
            if None not in found and found in values and one not in known
        ]
    return fetched


FAULTS = {
    "_joins": ("chain of left joins", "children aggregated before"),
    "_windows": ("window of a dimension", "window without partition", "window over children"),
    "_groups": ("children counted", "children aggregated before"),
    "_condition": ("scalar query that counts", "exists", "in"),
}
"""The part of the rewrite that is left out, and shapes that are then wrong or refused by Spark."""


@pytest.mark.parametrize(
    ("part", "shape"), [(part, shape) for part, shapes in FAULTS.items() for shape in shapes]
)
def test_a_rewrite_without_one_of_its_parts_is_wrong(
    evaluation: Callable[[int], Evaluation],
    monkeypatch: pytest.MonkeyPatch,
    part: str,
    shape: str,
) -> None:
    monkeypatch.setattr(at._SelectEdits, part, lambda _: iter(()))
    evaluated, sql = evaluation(SEEDS[0]), SHAPES[shape]
    try:
        found = evaluated.at_all(at_rewrite(analysed(sql)).text)
    except PySparkException:
        assert part == "_groups"  # an at_lsn that is not grouped by
        return
    assert found != evaluated.at_each(sql, "id")


def test_spark_s_error_leads_to_the_author_s_file(
    evaluation: Callable[[int], Evaluation],
) -> None:
    sql = "SELECT o.id,\n  ABS(o.pizzas) AS x\nFROM orders o LEFT JOIN clients c ON c.id = o.id"
    rewritten = at_rewrite(analysed(sql))
    with pytest.raises(PySparkException) as caught:
        evaluation(SEEDS[0]).session.sql(rewritten.text)
    position = rewritten.author_position(str(caught.value))
    assert (position.line, position.column) == (2, 3)


def test_every_function_of_spark_s_that_merges_or_multiplies_rows_is_on_a_list(
    spark: SparkSession,
) -> None:
    registry = spark._jsparkSession.sessionState().functionRegistry()
    names, groups = registry.listFunction().iterator(), ("agg_funcs", "window_funcs")
    listed = functions.AGGREGATES | functions.COLLECTED | functions.DETERMINED
    listed |= functions.OTHER_AGGREGATES | functions.WINDOW_ORDERED | functions.WINDOW_RANKED
    listed |= functions.GENERATORS
    found = set()
    while names.hasNext():
        name = names.next()
        if registry.lookupFunction(name).get().getGroup() in (*groups, "generator_funcs"):
            found.add(name.funcName())
    assert len(found) > 90
    assert found - listed == set()


def test_the_list_of_spark_s_functions_is_that_of_its_registry(spark: SparkSession) -> None:
    found = {row.function for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect()}
    assert {name for name in found if name.isidentifier()} == SPARK_FUNCTIONS
