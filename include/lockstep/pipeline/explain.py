"""What a change of each table does to a pipeline's result, in sentences for people. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from lockstep.pipeline.catalog import TableName
from lockstep.pipeline.plan import Plan
from lockstep.pipeline.query.reach import Reach


@dataclass(frozen=True)
class Explained:
    """A table that the query reads. reads: its columns. gives: the columns of the result made of
    its own. found_by: how its rows are found for a fact. on_change: what a change of a row does."""

    table: TableName
    reads: tuple[str, ...]
    gives: tuple[str, ...]
    found_by: tuple[str, ...]
    on_change: str


def explain(plan: Plan) -> list[Explained]:
    """Each table of the plan, the fact first."""
    return [
        Explained(
            table=name,
            reads=table.columns,
            gives=tuple(_given(plan, name)),
            found_by=tuple(dict.fromkeys(_found_by(plan, name))),
            on_change=_on_change(plan, name),
        )
        for name, table in plan.tables.items()
    ]


def _given(plan: Plan, table: TableName) -> Iterator[str]:
    for column in plan.query.outputs:
        if any(value.table == table for value in column.values):
            yield column.name


def _found_by(plan: Plan, table: TableName) -> Iterator[str]:
    if table == plan.fact.name:
        yield f"its own key, {', '.join(plan.fact.key)}"
    for step in plan.steps:
        if step.table == table:
            yield _look_up(plan, step)


def _look_up(plan: Plan, step: Reach) -> str:
    pairs = " and ".join(
        f"{column} = {'an element of ' if step.is_element else ''}{step.from_table}.{other}"
        for column, other in step.equalities
    )
    key = plan.tables[step.table].key
    return f"{pairs}{', its key' if step.columns[: len(key)] == key else ''}"


def _on_change(plan: Plan, table: TableName) -> str:
    if table == plan.fact.name:
        return "the row of its key is made again, or removed, as of the change's commit"
    if table in plan.children:
        return "the row of its fact is made again, as of the change's commit"
    return "facts that commit later are joined with it; rows of before stay as they are"
