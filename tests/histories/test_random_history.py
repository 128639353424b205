"""The histories that a pipeline is tried on: what is in them, for every pipeline of the project."""

from collections.abc import Iterator
from itertools import pairwise
from random import Random, randrange

import pyarrow as pa
import pytest
from lockstep.histories.made_up import MadeUp, written
from lockstep.histories.random_history import RandomHistory
from lockstep.pipeline.plan import Plan, plan_of
from lockstep.pipeline.project import Pipeline, read_project
from lockstep.pipeline.types import arrow_schema

from tests.project import PROJECT_DIR

PIPELINES = read_project(PROJECT_DIR).pipelines
TRANSACTIONS = 300


@pytest.fixture(params=sorted(PIPELINES))
def pipeline(request: pytest.FixtureRequest) -> Pipeline:
    return PIPELINES[request.param]


@pytest.fixture
def seed() -> int:
    seed = randrange(10**6)
    print(f"seed {seed}")  # noqa: T201 - shown when a test fails
    return seed


def history_of(pipeline: Pipeline, seed: int, count: int = TRANSACTIONS) -> Iterator[MadeUp]:
    history = RandomHistory(plan_of(pipeline), pipeline.source.catalog, Random(seed))
    return (history.transaction() for _ in range(count))


def test_a_seed_makes_one_history(pipeline: Pipeline, seed: int) -> None:
    plan = plan_of(pipeline)
    one, same, other = (
        [written(plan, made.transaction) for made in history_of(pipeline, number, 20)]
        for number in (seed, seed, seed + 1)
    )
    assert one == same != other


def test_each_transaction_goes_on_from_the_one_before(pipeline: Pipeline, seed: int) -> None:
    plan = plan_of(pipeline)
    rows: dict = {name: {} for name in plan.tables}
    lsn = 0
    for made in history_of(pipeline, seed):
        assert made.before == rows
        for change in made.transaction.changes:
            table = next(name for name in rows if change.table.endswith(name.name))
            if change.op == "d":
                del rows[table][change.row.key]
                continue
            assert (change.op == "u") == (change.row.key in rows[table])
            rows[table][change.row.key] = change.row.values
        assert made.after == rows
        assert made.transaction.commit_lsn > lsn
        lsn = made.transaction.commit_lsn


def test_values_are_of_the_tables_types_and_null_only_where_they_may_be(
    pipeline: Pipeline, seed: int
) -> None:
    plan, catalog = plan_of(pipeline), pipeline.source.catalog
    made = list(history_of(pipeline, seed))
    for name, table in plan.tables.items():
        rows = [row for one in made for row in one.after[name].values()]
        arrow = pa.table(
            {column: [row[n] for row in rows] for n, column in enumerate(table.columns)},
            schema=arrow_schema(table.types),
        )
        for column in table.columns:
            found = arrow[column]
            may_be_null = catalog.table(name).column(column).is_nullable
            assert bool(found.null_count) == may_be_null, (name, column)
            assert len(set(map(str, found.to_pylist()))) > 1, (name, column)


def test_much_happens_in_it(pipeline: Pipeline, seed: int) -> None:
    """Rows come, change and go, keys change, several tables change at once, and facts are there."""
    plan = plan_of(pipeline)
    seen: set[str] = set()
    for made in history_of(pipeline, seed):
        changes = made.transaction.changes
        seen |= {f"{change.op} {change.table}" for change in changes}
        if any(
            (one.table, one.op, next_.op) == (next_.table, "d", "c")
            and one.row.key != next_.row.key
            for one, next_ in pairwise(changes)
        ):
            seen.add("a key changes")
        if len({change.table for change in changes}) > 1:
            seen.add("several tables")
        if made.touched & made.after[plan.fact.name].keys():
            seen.add("a fact is there")
    tables = [f"{name.schema}.{name.name}" for name in plan.tables]
    wanted = {"a key changes", "several tables", "a fact is there"}
    assert len([what for what in seen if what[:2] in ("c ", "u ", "d ")]) == 3 * len(tables)
    assert wanted <= seen


def test_a_changed_child_touches_its_owner_of_before_and_of_now(seed: int) -> None:
    pipeline = PIPELINES["consignments_packed"]
    plan: Plan = plan_of(pipeline)
    [(child, columns)] = plan.children.items()
    places = [plan.tables[child].columns.index(column) for column in columns]
    moved = 0
    for made in history_of(pipeline, seed):
        before, after = made.before[child], made.after[child]
        owners = {
            tuple(rows[key][place] for place in places)
            for key in before.keys() | after.keys()
            if before.get(key) != after.get(key)
            for rows in (before, after)
            if key in rows
        }
        living = owners & made.after[plan.fact.name].keys()
        assert living <= made.touched
        moved += len(living) > 1
    assert moved
