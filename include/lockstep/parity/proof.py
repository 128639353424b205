"""Which of a window's mismatches the source's history explains, whatever their number.

A few thousand are judged at a time: their rows' versions are read from the history, and Spark runs
the pipeline's query over them at the points of each row. Rules: differences.explained_sql.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from lockstep.cdc.cuts import DatabaseSnapshot
from lockstep.parity.at_points import evaluated, table_of
from lockstep.parity.differences import (
    ASKED,
    AT_POINTS,
    IS_RACE,
    SUSPECTS,
    explained_sql,
    key_names,
)
from lockstep.parity.known_results import KnownResults
from lockstep.parity.points import Cuts, Points
from lockstep.parity.versions import NOWHERE, HistoryReader, RowHistories, reached_rows
from lockstep.pipeline.plan import Plan
from lockstep.pipeline.row_keys import Key

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS_AT_ONCE = 25_000
"""Facts whose versions, and those of all that they lead to, are in memory at once."""


@dataclass(frozen=True)
class Evidence:
    """What rows are judged by. session: its views are replaced. cuts: of the window's rows. known:
    what the query gave for other modes of the window."""

    session: "SparkSession"
    plan: Plan
    history: HistoryReader
    cuts: Cuts
    known: KnownResults


@dataclass(frozen=True)
class Suspect:
    """A mismatch, and the moments it is judged at: its commit, its look-up's snapshot, its cut.

    looked_up_at: None of a row that is not raced, or whose look-up kept none.
    """

    key: Key
    row_key: str
    commit_lsn: int
    is_raced: bool
    looked_up_at: str | None
    cut: str

    @property
    def may_be_explained(self) -> bool:
        """A raced row without a snapshot cannot."""
        return not self.is_raced or self.looked_up_at is not None


class RowPoints(NamedTuple):
    """Numbers of the points that one row is judged at; of a row that is not raced the first two are
    the same.

    stream: what its values are of; commit: of its change; cut: of the hourly table's row.
    """

    stream: int
    commit: int
    cut: int


def explained(by: Evidence, suspects: "DataFrame") -> pa.Table:
    """The keys of those suspects (rows of differences_sql) that the history explains, and IS_RACE.

    Raises LakehouseError when the history cannot be read.
    """
    suspects.createOrReplaceTempView(SUSPECTS)
    found = [_explained(by, some) for some in _suspects(by, suspects)]
    return pa.concat_tables(found)


def of_before_capture(by: Evidence, rows: "DataFrame") -> pa.Table:
    """The keys of those rows whose fact the cut sees as a snapshot found it.

    Raises LakehouseError when the history cannot be read.
    """
    fact, found = by.plan.fact, []
    for keys in _parts(rows.select(*key_names(by.plan)).toArrow()):
        texts = {fact.key_text(key): key for key in keys}
        for row in by.history.of_keys(fact.name, texts):
            key = texts[row.row_key]
            place = row.place_in(DatabaseSnapshot.parse(by.cuts.of(key)))
            if place != NOWHERE and row.versions[place].tx_id is None:
                found.append(key)
    return table_of(found, key_schema(by.plan))


def key_schema(plan: Plan) -> pa.Schema:
    """Of a table of keys: k0, k1, …"""
    types = [type_.arrow for type_ in plan.fact.key_types]
    return pa.schema(list(zip(key_names(plan), types, strict=True)))


def explained_schema(plan: Plan) -> pa.Schema:
    """Of what `explained` returns."""
    return key_schema(plan).append(pa.field(IS_RACE, pa.bool_()))


def _parts(rows: pa.Table) -> Iterator[list[tuple]]:
    for first in range(0, rows.num_rows, ROWS_AT_ONCE):
        columns = rows.slice(first, ROWS_AT_ONCE).columns
        yield list(zip(*(column.to_pylist() for column in columns), strict=True))


def _suspects(by: Evidence, rows: "DataFrame") -> Iterator[list[Suspect]]:
    names = ("commit_lsn", "is_raced", "look_up")
    asked = rows.select(*key_names(by.plan), *(f"stream.{name}" for name in names))
    for part in _parts(asked.toArrow()):
        yield [suspect(by, row[:-3], *row[-3:]) for row in part]


def suspect(
    by: Evidence, key: Key, commit_lsn: int, is_raced: bool, looked_up_at: str | None
) -> Suspect:
    """Of a row of the stream."""
    row_key = by.plan.fact.key_text(key)
    return Suspect(key, row_key, commit_lsn, is_raced, looked_up_at, by.cuts.of(key))


def _explained(by: Evidence, suspects: Iterable[Suspect]) -> pa.Table:
    plan, keys = by.plan, key_schema(by.plan)
    suspects = [one for one in suspects if one.may_be_explained]
    rows = reached_rows(by.history, plan, [one.row_key for one in suspects])
    asked = [one for one in suspects if has_last_change(plan, rows, one)]
    if not asked:
        return explained_schema(plan).empty_table()
    points = points_of(asked)
    numbered = table_of(
        [(*one.key, *row_points(points, one)) for one in asked],
        pa.schema([*keys, *((f"{name}_point", pa.int64()) for name in RowPoints._fields)]),
    )
    by.session.createDataFrame(numbered).createOrReplaceTempView(ASKED)
    found = by.known.at(
        points,
        each_point(points, asked),
        lambda new: evaluated(by.session, plan, rows, points, new).toArrow(),
    )
    by.session.createDataFrame(found).createOrReplaceTempView(AT_POINTS)
    return by.session.sql(explained_sql(plan)).toArrow().cast(explained_schema(plan))


def points_of(suspects: Iterable[Suspect]) -> Points:
    """Of all their snapshots."""
    return Points(text for one in suspects for text in (one.cut, one.looked_up_at) if text)


def row_points(points: Points, one: Suspect) -> RowPoints:
    """Of a suspect, by the numbers that `points` gives to snapshots."""
    snapshot = one.looked_up_at if one.is_raced else None
    stream = points.number(snapshot) if snapshot else one.commit_lsn
    return RowPoints(stream, one.commit_lsn, points.number(one.cut))


def each_point(points: Points, suspects: Iterable[Suspect]) -> list[tuple[Key, int]]:
    """Each suspect's key with its points; once, where they are the same."""
    return [
        (one.key, point) for one in suspects for point in dict.fromkeys(row_points(points, one))
    ]


def has_last_change(plan: Plan, rows: RowHistories, one: Suspect) -> bool:
    """Whether the change of the stream is the last that the cut sees of the fact and its children.

    Then the cut sees the very version of the fact that the stream has; but with children. Of two
    rows the cut may see a change and not one that was committed before: the stream's last change
    has both then, and what the cut sees is judged by the query alone.
    """
    row, seen = rows.of(plan.fact.name).get(one.row_key), DatabaseSnapshot.parse(one.cut)
    if row is None:
        return False
    in_cut, in_stream = row.place_in(seen), row.place_at(one.commit_lsn)
    if not plan.children:
        return in_stream == in_cut != NOWHERE
    return NOWHERE != in_cut <= in_stream and all(
        rows.last_change_of(child, columns, one.key, seen) <= one.commit_lsn
        for child, columns in plan.children.items()
    )
