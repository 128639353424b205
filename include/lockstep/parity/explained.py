"""What the source's history says of rows that differ: of the kept ones, whose number is bounded.

Which rows it explains was judged before, of all of them: proof.py.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lockstep.cdc.cuts import DatabaseSnapshot
from lockstep.model.verdict import DifferenceClass
from lockstep.parity.at_points import Results, results_at
from lockstep.parity.cause import Between
from lockstep.parity.differences import values_of
from lockstep.parity.differing import DifferingRow, Seen, Values
from lockstep.parity.points import Points
from lockstep.parity.proof import (
    Evidence,
    Suspect,
    each_point,
    points_of,
    row_points,
    suspect,
)
from lockstep.parity.versions import NOWHERE, Place, RowHistories, RowHistory, reached_rows
from lockstep.pipeline.plan import Plan
from lockstep.pipeline.row_keys import Key

_OTHER_VALUES = (
    DifferenceClass.LOOKUP_RACE,
    DifferenceClass.DIMENSION_DRIFT,
    DifferenceClass.VALUE_MISMATCH,
)


def with_history(by: Evidence, rows: Sequence[DifferingRow]) -> list[DifferingRow]:
    """The same rows; those that the stream lacks or has with other values with their history.

    Raises LakehouseError when the history cannot be read.
    """
    fact = by.plan.fact
    suspects = {one.key: _suspect(by, one) for one in rows if one.kind in _OTHER_VALUES}
    found = reached_rows(by.history, by.plan, [one.row_key for one in suspects.values()])
    missing = [one for one in rows if one.kind is DifferenceClass.MISSING_IN_STREAM]
    found.add(by.history.of_keys(fact.name, [fact.key_text(one.key) for one in missing]))
    mismatches = [suspects[one.key] for one in rows if one.kind is DifferenceClass.VALUE_MISMATCH]
    asked = [one for one in mismatches if one.row_key in found.of(fact.name)]
    points = points_of(mismatches)
    results = {}
    if asked:
        results = results_at(by.session, by.plan, found, points, each_point(points, asked))
    kept = _Kept(by.plan, found, suspects, points, results)
    return [kept.with_history(one, _seen_by(by.cuts.of(one.key))) for one in rows]


def _suspect(by: Evidence, one: DifferingRow) -> Suspect:
    stream = one.stream
    return suspect(by, one.key, stream.commit.commit_lsn, stream.is_raced, stream.looked_up_at)


@dataclass(frozen=True)
class _Kept:
    """rows: what the suspects lead to. results: what the query gives for those that are none."""

    plan: Plan
    rows: RowHistories
    suspects: Mapping[Key, Suspect]
    points: Points
    results: Results

    def with_history(self, one: DifferingRow, in_cut: Place) -> DifferingRow:
        fact = self.rows.of(self.plan.fact.name).get(self.plan.fact.key_text(one.key))
        place = NOWHERE if fact is None else in_cut(fact)
        one = replace(one, in_source=None if place == NOWHERE else fact.versions[place])
        asked = self.suspects.get(one.key)
        if asked is None:
            return one
        in_stream = _in_stream(asked)
        between = Between(self.plan, self.rows, asked.row_key, in_stream, in_cut)
        one = replace(one, causes={name: between.changes(name) for name in one.columns})
        if one.kind is DifferenceClass.LOOKUP_RACE:
            return replace(one, seen=fact and _seen(fact, in_stream(fact)))
        if one.kind is DifferenceClass.VALUE_MISMATCH:
            return replace(one, by_query=self._by_query(asked))
        return one

    def _by_query(self, asked: Suspect) -> tuple[Values | None, Values | None]:
        at = row_points(self.points, asked)
        return self._single(asked.key, at.stream), self._single(asked.key, at.cut)

    def _single(self, key: Key, point: int) -> Values | None:
        found = self.results.get((key, point), [])
        return dict(zip(values_of(self.plan), found[0], strict=True)) if len(found) == 1 else None


def _in_stream(asked: Suspect) -> Place:
    if asked.is_raced and asked.looked_up_at is not None:
        return _seen_by(asked.looked_up_at)
    return lambda row: row.place_at(asked.commit_lsn)


def _seen_by(snapshot: str) -> Place:
    seen = DatabaseSnapshot.parse(snapshot)
    return lambda row: row.place_in(seen)


def _seen(fact: RowHistory, place: int) -> Seen | None:
    return None if place == NOWHERE else Seen(fact.op_of(place), fact.versions[place])
