"""The comparison of a window, for every pipeline: SQL made from its plan, over one version each.

It shares no code with the modes it judges: what it knows of them is their tables.
"""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lockstep.cdc.cuts import DatabaseSnapshot
from lockstep.model.verdict import DifferenceClass
from lockstep.model.window import Window
from lockstep.parity import bindings, proof
from lockstep.parity.differences import IS_RACE, differences_sql, explained_sql, key_names
from lockstep.parity.differing import DifferingRow, differing_row
from lockstep.parity.explained import with_history
from lockstep.parity.known_results import KnownResults
from lockstep.parity.points import Cuts
from lockstep.parity.sides import Sides
from lockstep.parity.versions import HistoryReader
from lockstep.pipeline.modes import PUBLISHED, Mode
from lockstep.pipeline.plan import Plan
from lockstep.sources.delta import open_table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

KEPT_OF_A_CLASS = 1_000
"""Differing rows kept with their evidence, by class; all are judged and counted."""
_BEFORE, _EXPLAINED = "is_before_capture", "is_explained"


@dataclass(frozen=True)
class Compared:
    """What the comparison of a window found.

    rows: that either side has in the window.
    counts: rows by class; classes without any are absent.
    before_capture: rows that cannot be judged, for they rest on the time before change capture.
    differing: at most KEPT_OF_A_CLASS of each class, in the order of classes and keys, with what
        the source's history says of them; none of before capture.
    """

    rows: int
    counts: Mapping[DifferenceClass, int]
    before_capture: int
    differing: list[DifferingRow]


@dataclass(frozen=True)
class OtherModes:
    """What the comparisons of a window's other modes found, and which sides they compared."""

    results: KnownResults = field(default_factory=KnownResults)
    compared: list[tuple[Sides, Compared]] = field(default_factory=list)

    def same_as(self, sides: Sides) -> Compared | None:
        """What was found of a mode with the same rows that is judged in the same way."""
        for other, found in self.compared:
            if _is_published(other) == _is_published(sides) and sides.has_rows_of(other):
                return found
        return None


def _is_published(sides: Sides) -> bool:
    return sides.mode in PUBLISHED


def compare(spark: "SparkSession", sides: Sides, others: OtherModes) -> Compared:
    """Compare the window at the run's cut, which the stream has passed (`readiness`).

    others: of the same window; a mode that has the rows of one of them differs as it does. A
    repaired row is compared at the cut of its last repair. Raises LakehouseError when the source's
    history cannot be read.
    """
    found = others.same_as(sides)
    if found is None:
        found = _compared(spark, sides, others.results)
        others.compared.append((sides, found))
    return found


def _compared(spark: "SparkSession", sides: Sides, known: KnownResults) -> Compared:
    """As `compare`, where no other mode has the same rows."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as F  # noqa: N812

    plan, session, cuts = sides.plan, spark.newSession(), Cuts.of_window(sides.plan, sides.ready)
    bindings.bind_both_sides(session, sides)
    bindings.bind_repaired(session, plan, cuts)
    met = Observation()
    judged = session.sql(differences_sql(plan, cuts.snapshots, sides.window))
    judged = judged.observe(met, F.count_if(F.expr("in_batch OR in_stream")).alias("rows"))
    with _kept(judged.where("class IS NOT NULL")) as differing:
        kinds = {row["class"] for row in differing.groupBy("class").count().collect()}
        if not kinds:
            return Compared(met.get["rows"], {}, 0, [])
        history = HistoryReader(open_table(sides.settings.table_uri(plan.history)), plan.tables)
        by = proof.Evidence(session, plan, history, cuts, known)
        counts, before, rows = _counted(_classed(by, sides.mode, differing, kinds), plan)
    return Compared(met.get["rows"], counts, before, with_history(by, rows))


def definition(plan: Plan) -> str:
    """Identifies how windows are judged: it changes with the SQL, and with what is tolerated."""
    some_window, nothing_seen = (
        Window.parse("2000-01-01", "2000-01-02"),
        DatabaseSnapshot(0, 0, frozenset()),
    )
    parts = (
        differences_sql(plan, [nothing_seen], some_window),
        explained_sql(plan),
        plan.manifest.tolerate.model_dump_json(),
    )
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def _classed(
    by: proof.Evidence, mode: Mode, differing: "DataFrame", kinds: set[str]
) -> "DataFrame":
    """The same rows, those that the history explains in their class; which are of before capture.

    Of a mode that knows only what was published, rows may rest on the time before capture began: a
    row that was there before and was never published since is not missing; and of one that the
    initial snapshot found published, no record says what was joined with it since.
    """
    from pyspark.sql import functions as F  # noqa: N812

    mismatch, missing = DifferenceClass.VALUE_MISMATCH, DifferenceClass.MISSING_IN_STREAM
    before = proof.key_schema(by.plan).empty_table()
    explained = proof.explained_schema(by.plan).empty_table()
    if mismatch in kinds:
        explained = proof.explained(by, differing.where(F.col("class") == mismatch))
    if missing in kinds and mode in PUBLISHED:
        before = proof.of_before_capture(by, differing.where(F.col("class") == missing))
    classed, is_race = differing, explained[IS_RACE]
    for kind, keys in (
        (DifferenceClass.LOOKUP_RACE, explained.filter(is_race)),
        (DifferenceClass.DIMENSION_DRIFT, explained.filter(pc.invert(is_race))),
    ):
        by_design = F.when(F.col(_EXPLAINED), str(kind)).otherwise(F.col("class"))
        marked = _marked(by, classed, keys.drop_columns(IS_RACE), _EXPLAINED)
        classed = marked.withColumn("class", by_design).drop(_EXPLAINED)
    classed = _marked(by, classed, before, _BEFORE)
    if mode not in PUBLISHED:
        return classed
    return classed.withColumn(_BEFORE, F.col(_BEFORE) | _is_of_snapshot())


def _is_of_snapshot() -> "Column":
    from pyspark.sql import functions as F  # noqa: N812

    is_unexplained = F.col("class") == DifferenceClass.VALUE_MISMATCH
    return is_unexplained & F.col("stream.tx_id").isNull()


def _marked(by: proof.Evidence, rows: "DataFrame", keys: pa.Table, name: str) -> "DataFrame":
    """The rows with a boolean column: whether their key is among these."""
    from pyspark.sql import functions as F  # noqa: N812

    if not keys.num_rows:
        return rows.withColumn(name, F.lit(False))
    marks = by.session.createDataFrame(keys).withColumn(name, F.lit(True))
    marked = rows.join(marks, key_names(by.plan), "left")
    return marked.withColumn(name, F.coalesce(F.col(name), F.lit(False)))


def _counted(
    classed: "DataFrame", plan: Plan
) -> tuple[dict[DifferenceClass, int], int, list[DifferingRow]]:
    """Rows by class, rows of before capture, and the first rows of each class: in one job."""
    from pyspark.sql import Observation
    from pyspark.sql import Window as Rows
    from pyspark.sql import functions as F  # noqa: N812

    met, key = Observation(), key_names(plan)
    is_before = F.col(_BEFORE)
    of_kind = [
        F.count_if(~is_before & (F.col("class") == kind)).alias(kind) for kind in DifferenceClass
    ]
    place = F.row_number().over(Rows.partitionBy("class").orderBy(*key))
    first = (
        classed.observe(met, F.count_if(is_before).alias(_BEFORE), *of_kind)
        .where(~is_before)
        .withColumn("place", place)
        .where(F.col("place") <= KEPT_OF_A_CLASS)
    )
    rows: list[dict[str, Any]] = first.toArrow().to_pylist()
    counts = {kind: n for kind in DifferenceClass if (n := met.get[kind])}
    ranks = {str(kind): rank for rank, kind in enumerate(DifferenceClass)}
    rows.sort(key=lambda row: (ranks[row["class"]], row["place"]))
    return counts, met.get[_BEFORE], [differing_row(plan, row) for row in rows]


@contextmanager
def _kept(rows: "DataFrame") -> "Iterator[DataFrame]":
    """Computed once for the block, in memory or on the disk."""
    rows.persist()
    try:
        yield rows
    finally:
        rows.unpersist()
