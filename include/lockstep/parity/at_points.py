"""A pipeline's query over the source's history, at points of it: commits, and what snapshots saw.

Which rows are evaluated, and what follows for the comparison, is decided elsewhere.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lockstep.enrich.plans import run_at
from lockstep.parity.differences import key_names, values_of
from lockstep.parity.points import Points
from lockstep.parity.versions import RowHistories, RowHistory
from lockstep.pipeline.plan import Plan, PlannedTable
from lockstep.pipeline.query.at import AT_LSN, at_rewrite
from lockstep.pipeline.row_keys import Key
from lockstep.pipeline.types import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_VALID = [pa.field("valid_from", pa.int64()), pa.field("valid_to", pa.int64())]
Results = Mapping[tuple[Key, int], list[tuple[Any, ...]]]
"""The rows of the result (values_of the plan), by key and point."""


def evaluated(
    session: "SparkSession",
    plan: Plan,
    rows: RowHistories,
    points: Points,
    asked: Collection[tuple[Key, int]],
) -> "DataFrame":
    """What the query gives for facts at points: the columns k0, …, c0, … (differences.py), at_lsn.

    session: its views are replaced. rows: all that these facts lead to. asked: each key, with each
    of its points once.
    """
    tables = {
        name: session.createDataFrame(_versions(table, rows.of(name).values(), points))
        for name, table in plan.tables.items()
    }
    keys = arrow_schema({name: plan.fact.types[name] for name in plan.fact.key})
    schema = pa.schema([*keys, pa.field(AT_LSN, pa.int64())])
    at = session.createDataFrame(table_of([(*key, point) for key, point in asked], schema))
    found = run_at(session, at_rewrite(plan.query), tables, at)
    return found.toDF(*output_names(plan), AT_LSN)


def output_names(plan: Plan) -> list[str]:
    """What differences.py calls each of plan.outputs."""
    values = {name: f"c{n}" for n, name in enumerate(values_of(plan))}
    names = values | dict(zip(plan.key, key_names(plan), strict=True))
    return [names[name] for name in plan.outputs]


def results_at(
    session: "SparkSession",
    plan: Plan,
    rows: RowHistories,
    points: Points,
    asked: Collection[tuple[Key, int]],
) -> Results:
    """The same, collected."""
    results: dict[tuple[Key, int], list[tuple[Any, ...]]] = {}
    names = [*key_names(plan), *(f"c{n}" for n in range(len(values_of(plan))))]
    for row in evaluated(session, plan, rows, points, asked).toArrow().to_pylist():
        values = tuple(row[name] for name in names)
        place = values[: len(plan.key)], row[AT_LSN]
        results.setdefault(place, []).append(values[len(plan.key) :])
    return results


def table_of(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    """Rows as an Arrow table."""
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _versions(table: PlannedTable, rows: Iterable[RowHistory], points: Points) -> pa.Table:
    schema = pa.schema([*arrow_schema(table.types), *_VALID])
    return table_of([version for row in rows for version in points.validities(row)], schema)
