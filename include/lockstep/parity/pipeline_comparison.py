"""A window of a pipeline's hourly table, compared with the change log of a mode at the run's cut.

It shares no code with the modes that it judges: what it knows of them is their tables. The result
is returned, and nothing is kept: there is no line of a ledger yet.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from lockstep.cdc.cuts import DatabaseSnapshot
from lockstep.model.verdict import DifferenceClass, Verdict
from lockstep.model.window import Window
from lockstep.parity.at_cut import CUT, Results, results_at
from lockstep.parity.cause import Between, Change
from lockstep.parity.differences import (
    BATCH_ROWS,
    STREAM_CHANGES,
    differences_sql,
)
from lockstep.parity.pipeline_readiness import PipelineReadiness
from lockstep.parity.versions import (
    NOWHERE,
    HistoryReader,
    RowHistories,
    Version,
    comparable,
    reached_rows,
)
from lockstep.pipeline.modes import Mode
from lockstep.pipeline.names import quoted
from lockstep.pipeline.plan import Plan
from lockstep.sinks.window_conditions import of_time

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame, SparkSession

KEPT_OF_A_CLASS = 1_000
"""Differing rows that are kept, by class; all are counted. A drift is proved of these only."""
_LOOKED_INTO = (DifferenceClass.MISSING_IN_STREAM, DifferenceClass.VALUE_MISMATCH)
Values = tuple[Any, ...]


@dataclass(frozen=True)
class StreamChange:
    """A row of the change log. values: of plan.outputs."""

    values: Values
    op: str
    tx_id: int | None
    commit_lsn: int
    committed_at: datetime | None


@dataclass(frozen=True)
class Difference:
    """A row that differs. batch: its values (of plan.outputs) in the hourly table, if it is there.

    row_key: the text of the key, as the source's history has it. stream: the last change that the
    cut sees; after_cut: the last one that it does not see. batch_rows: how often the hourly table
    has the key. columns: those that differ, in their order.

    Of rows that the stream lacks or has with other values, from the source's history:
    - in_source: the fact's own row as the cut sees it; None when it is not there;
    - causes: of each differing column, what changed it between the commit of the stream's row and
      the cut;
    - by_query: what the query gives at these two points; None where it is not exactly one row.
    """

    kind: DifferenceClass
    key: Values
    row_key: str
    batch: Values | None
    stream: StreamChange | None
    after_cut: StreamChange | None
    batch_rows: int
    repeated_changes: int
    columns: tuple[str, ...]
    in_source: Version | None = None
    causes: Mapping[str, tuple[Change, ...]] = field(default_factory=dict)
    by_query: tuple[Values | None, Values | None] = (None, None)


@dataclass(frozen=True)
class Comparison:
    """What the comparison of a window came to.

    rows: that either side has in the window. counts: differing rows by class, in the order of the
    classes; classes without any are absent. unexplained: of the mismatches, how many were not
    looked into, since there are more than KEPT_OF_A_CLASS. differences: kept ones, those that fail
    the window first, in the order of the classes and keys.
    """

    verdict: Verdict
    reason: str
    rows: int = 0
    counts: Mapping[DifferenceClass, int] = field(default_factory=dict)
    unexplained: int = 0
    differences: tuple[Difference, ...] = ()


def compare(
    session: Callable[[], "SparkSession"],
    plan: Plan,
    mode: Mode,
    window: Window,
    ready: PipelineReadiness,
) -> Comparison:
    """Compare the window, each table at its version of `ready`.

    session: asked for only if there is something to compare. Raises LakehouseError when the
    source's history cannot be read.
    """
    if ready.verdict is not None:
        return Comparison(ready.verdict, ready.reason)
    spark = session().newSession()
    batch, stream = _read(spark, ready.batch), _read(spark, ready.stream)
    if wrong := _type_differences(plan, batch, stream):
        return Comparison(Verdict.FAIL, f"the columns differ: {'; '.join(wrong)}")
    seen = DatabaseSnapshot.parse(ready.run.cut.snapshot)
    _bind_both_sides(plan, window, batch, stream)
    rows, counts, differing = _counted(spark, plan, differences_sql(plan, seen, window))
    history = HistoryReader(ready.history, plan.tables)
    differences = list(_explained(spark, plan, history, seen, differing))
    return _judged(plan, mode, rows, counts, differences)


def failing(
    plan: Plan, mode: Mode, counts: Mapping[DifferenceClass, int]
) -> dict[DifferenceClass, int]:
    """The counts that fail a window: all but what changed after the cut, and what is tolerated."""
    passing = {DifferenceClass.CHANGED_AFTER_CUT, *plan.manifest.tolerate.of(mode)}
    return {kind: n for kind, n in counts.items() if kind not in passing}


def _judged(
    plan: Plan,
    mode: Mode,
    rows: int,
    counts: Mapping[DifferenceClass, int],
    differences: Iterable[Difference],
) -> Comparison:
    """The verdict, once the drifts among the mismatches are known."""
    mismatch, drift = DifferenceClass.VALUE_MISMATCH, DifferenceClass.DIMENSION_DRIFT
    drifts = sum(one.kind is drift for one in differences)
    found = Counter({**counts, drift: drifts, mismatch: counts.get(mismatch, 0) - drifts})
    of_classes = {kind: found[kind] for kind in DifferenceClass if found[kind]}
    wrong = failing(plan, mode, of_classes)
    ranks = {kind: rank for rank, kind in enumerate(DifferenceClass)}
    return Comparison(
        verdict=Verdict.FAIL if wrong else Verdict.PASS,
        reason=", ".join(f"{n:,} {kind}" for kind, n in wrong.items()),
        rows=rows,
        counts=of_classes,
        unexplained=max(0, counts.get(mismatch, 0) - KEPT_OF_A_CLASS),
        differences=tuple(
            sorted(differences, key=lambda one: (one.kind not in wrong, ranks[one.kind]))
        ),
    )


def _read(spark: "SparkSession", table: "DeltaTable") -> "DataFrame":
    reader = spark.read.format("delta").option("versionAsOf", table.version())
    return reader.load(table.table_uri)


def _type_differences(plan: Plan, batch: "DataFrame", stream: "DataFrame") -> list[str]:
    """Where a column of the author's is absent on one side, or of different types."""
    of_batch, of_stream = dict(batch.dtypes), dict(stream.dtypes)
    return [
        f"{name}: {of_batch.get(name, 'absent')} in the hourly table, "
        f"{of_stream.get(name, 'absent')} in the stream's"
        for name in plan.outputs
        if name not in of_batch or of_batch[name] != of_stream.get(name)
    ]


def _bind_both_sides(plan: Plan, window: Window, batch: "DataFrame", stream: "DataFrame") -> None:
    """The views of differences_sql.

    A change may lie outside the window by its time only, so keys are found by time first, and
    their changes by key.
    """
    inside = of_time(window, quoted(plan.time))
    batch, names = batch.where(inside), [f"k{n}" for n in range(len(plan.key))]
    columns = [quoted(name) for name in plan.key]
    keys = batch.select(*columns).union(stream.where(inside).select(*columns)).distinct()
    keys = keys.toDF(*names)
    pairs = zip(columns, names, strict=True)
    is_same = [stream[column].eqNullSafe(keys[name]) for column, name in pairs]
    batch.createOrReplaceTempView(BATCH_ROWS)
    stream.join(keys, is_same, "left_semi").createOrReplaceTempView(STREAM_CHANGES)


def _counted(
    spark: "SparkSession", plan: Plan, sql: str
) -> tuple[int, dict[DifferenceClass, int], list[Difference]]:
    """Rows of either side, differing rows by class, and the first of each class."""
    from pyspark.sql import Observation
    from pyspark.sql import Window as Rows
    from pyspark.sql import functions as F  # noqa: N812

    met, of_class = Observation(), Rows.partitionBy("class")
    judged = spark.sql(sql).observe(met, F.count_if(F.expr("in_batch OR in_stream")).alias("rows"))
    first = (
        judged.where("class IS NOT NULL")
        .withColumn("of_class", F.count("*").over(of_class))
        .withColumn("place", F.row_number().over(of_class.orderBy("key")))
        .where(F.col("place") <= KEPT_OF_A_CLASS)
    )
    kept = sorted(first.toArrow().to_pylist(), key=lambda row: row["place"])
    counts = {DifferenceClass(row["class"]): row["of_class"] for row in kept}
    return met.get["rows"], counts, [_difference(plan, row) for row in kept]


def _difference(plan: Plan, row: Mapping[str, Any]) -> Difference:
    batch, stream = _values(row["batch"]), _stream_change(row["stream"])
    key = _values(row["key"])
    return Difference(
        kind=DifferenceClass(row["class"]),
        key=key,
        row_key=plan.fact.key_text(key),
        batch=batch,
        stream=stream,
        after_cut=_stream_change(row["after_cut"]),
        batch_rows=row["batch_rows"],
        repeated_changes=row["repeated_changes"],
        columns=tuple(plan.outputs[n] for n in row["differing"])
        if row["in_batch"] and row["in_stream"]
        else (),
    )


def _stream_change(change: Mapping[str, Any] | None) -> StreamChange | None:
    if change is None:
        return None
    *values, op, tx_id, commit_lsn, committed_at = change.values()
    return StreamChange(tuple(values), op, tx_id, commit_lsn, committed_at)


def _values(fields: Mapping[str, Any] | None) -> Values | None:
    return None if fields is None else tuple(fields.values())


def _explained(
    spark: "SparkSession",
    plan: Plan,
    history: HistoryReader,
    seen: DatabaseSnapshot,
    differences: Iterable[Difference],
) -> Iterator[Difference]:
    """The same, with what the source's history says; a mismatch that it proves is a drift."""
    looked_into = {one.row_key for one in differences if one.kind in _LOOKED_INTO}
    mismatches = {
        one.row_key: one.stream.commit_lsn
        for one in differences
        if one.kind is DifferenceClass.VALUE_MISMATCH
    }
    rows = reached_rows(history, plan, looked_into)
    results = results_at(spark, plan, rows, mismatches, seen) if mismatches else {}
    for one in differences:
        found = replace(one, in_source=_in_source(plan, rows, seen, one.row_key))
        yield _with_causes(plan, rows, seen, results, found) if one.row_key in mismatches else found


def _with_causes(
    plan: Plan,
    rows: RowHistories,
    seen: DatabaseSnapshot,
    results: Results,
    one: Difference,
) -> Difference:
    between = Between(plan, rows, one.row_key, one.stream.commit_lsn, seen)
    at_points = [results.get((one.row_key, p), []) for p in (one.stream.commit_lsn, CUT)]
    by_query = tuple(found[0] if len(found) == 1 else None for found in at_points)
    is_drift = one.batch_rows == 1 and between.has_same_fact and _proves(plan, by_query, one)
    return replace(
        one,
        kind=DifferenceClass.DIMENSION_DRIFT if is_drift else one.kind,
        causes={name: between.changes(name) for name in one.columns},
        by_query=by_query,
    )


def _in_source(
    plan: Plan, rows: RowHistories, seen: DatabaseSnapshot, row_key: str
) -> Version | None:
    row = rows.of(plan.fact.name).get(row_key)
    place = NOWHERE if row is None else row.place_in(seen)
    return None if place == NOWHERE else row.versions[place]


def _proves(plan: Plan, by_query: tuple[Values | None, Values | None], one: Difference) -> bool:
    """Whether each side has, in every differing column, what the query gives at its point."""
    at_commit, in_cut = by_query
    if at_commit is None or in_cut is None:
        return False
    places = [plan.outputs.index(name) for name in one.columns]
    return all(
        comparable(one.stream.values[place]) == comparable(at_commit[place])
        and comparable(one.batch[place]) == comparable(in_cut[place])
        for place in places
    )
