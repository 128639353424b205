"""A pipeline's query over the source's history: at the commit of a stream's row, and at the cut.

The cut is a snapshot, and what it sees is no prefix of the log: it is a point of its own, CUT, at
which each row's last version that the snapshot sees is valid. Which rows are evaluated, and what
follows for the comparison, is decided elsewhere.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lockstep.cdc.cuts import DatabaseSnapshot
from lockstep.enrich.plans import run_at
from lockstep.parity.versions import RowHistories, RowHistory
from lockstep.pipeline.plan import Plan, PlannedTable
from lockstep.pipeline.query.at import AT_LSN, at_rewrite
from lockstep.pipeline.types import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CUT = -1
"""The point of the cut; those of commits are 0 and more."""
_NEVER = 2**63 - 1
_VALID = [pa.field("valid_from", pa.int64()), pa.field("valid_to", pa.int64())]
Results = Mapping[tuple[str, int], list[tuple[Any, ...]]]
"""The rows of the result (values of plan.outputs) by the fact's key as text and the point."""


def results_at(
    spark: "SparkSession",
    plan: Plan,
    rows: RowHistories,
    commits: Mapping[str, int],
    seen: DatabaseSnapshot,
) -> Results:
    """What the query gives for facts at a commit each, and at the cut.

    commits: the fact's key as text, and the commit's LSN. rows: all that these facts lead to.
    seen: the snapshot of the cut.
    """
    session = spark.newSession()
    tables = {
        name: session.createDataFrame(_versions(table, rows.of(name).values(), seen))
        for name, table in plan.tables.items()
    }
    points = session.createDataFrame(_points(plan.fact, rows, commits))
    found = run_at(session, at_rewrite(plan.query), tables, points)
    names = [f"c{n}" for n in range(len(plan.outputs))]
    results: dict[tuple[str, int], list[tuple[Any, ...]]] = {}
    for row in found.toDF(*names, AT_LSN).toArrow().to_pylist():
        *values, point = row.values()
        results.setdefault((key_text(plan, values), point), []).append(tuple(values))
    return results


def key_text(plan: Plan, values: Iterable[Any]) -> str:
    """The text of the fact's key in a row of the result (values of plan.outputs)."""
    values = tuple(values)
    return plan.fact.key_text(tuple(values[plan.outputs.index(name)] for name in plan.key))


def validities(row: RowHistory, seen: DatabaseSnapshot) -> Iterator[tuple[Any, ...]]:
    """Each version's values with its validity, half-open; and the one that the cut sees, at CUT."""
    ends = [*(one.commit_lsn for one in row.versions[1:]), _NEVER]
    for one, end in zip(row.versions, ends, strict=True):
        if one.values is not None:
            yield (*one.values, one.commit_lsn, end)
    in_cut = row.values(row.place_in(seen))
    if in_cut is not None:
        yield (*in_cut, CUT, CUT + 1)


def _versions(table: PlannedTable, rows: Iterable[RowHistory], seen: DatabaseSnapshot) -> pa.Table:
    schema = pa.schema([*arrow_schema(table.types), *_VALID])
    versions = [version for row in rows for version in validities(row, seen)]
    return _table(versions, schema)


def _points(fact: PlannedTable, rows: RowHistories, commits: Mapping[str, int]) -> pa.Table:
    """Of facts that the history has: the key's columns with both points."""
    types = arrow_schema({name: fact.types[name] for name in fact.key})
    versions = [one for row in rows.of(fact.name).values() for one in row.versions if one.values]
    keys = {fact.key_text(key): key for key in (fact.key_of(one.values) for one in versions)}
    points = [
        (*keys[one], point)
        for one, commit_lsn in commits.items()
        if one in keys
        for point in (commit_lsn, CUT)
    ]
    return _table(points, pa.schema([*types, pa.field(AT_LSN, pa.int64())]))


def _table(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)
