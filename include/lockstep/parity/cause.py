"""What changed a row of the result between the moment that the stream has it of and the cut.

Pure: from the versions of the rows that a fact leads to, and the lineage of the result's columns.
Whether the query gives what either side has is not judged here: proof.py.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from lockstep.parity.versions import Place, RowHistories, RowHistory
from lockstep.pipeline.catalog import TableName
from lockstep.pipeline.plan import Plan, PlannedTable
from lockstep.pipeline.values import comparable

Reached = Mapping[TableName, set[str]]
"""The keys of the rows that a fact leads to, by table; the fact's own is among them."""


@dataclass(frozen=True)
class Change:
    """A transaction's change of one row, behind a value that differs between the two sides.

    op: c, u or d. columns: what changed, with the value at the earlier of the two points and at the
    later one, null where the row is not there. is_in_cut: False of a change that the stream's row
    has, and that the hourly run did not see.
    """

    table: TableName
    row_key: str
    op: str
    tx_id: int | None
    commit_lsn: int
    committed_at: datetime | None
    is_in_cut: bool
    columns: Mapping[str, tuple[Any, Any]]


@dataclass(frozen=True)
class Between:
    """The versions of what a fact leads to, between the stream's point and the cut.

    in_stream, in_cut: which version of a row is valid at each.
    """

    plan: Plan
    rows: RowHistories
    fact: str
    in_stream: Place
    in_cut: Place

    def changes(self, output: str) -> tuple[Change, ...]:
        """What changed a column of the result, in the order of the commits.

        Of the rows that the fact leads to at one of the points, the columns that the output is made
        of or that decide which rows it is made of, where they differ between the points. Where a
        column changed several times, the last change. A row that the fact leads to at one point
        only, because another row leads elsewhere, has no part in it.
        """
        if self.fact not in self.rows.of(self.plan.fact.name):
            return ()
        (lineage,) = (one for one in self.plan.query.outputs if one.name == output)
        in_stream, in_cut = self._reached_at_both
        found: list[Change] = []
        for table in self.plan.tables.values():
            columns = [one.column for one in lineage.depends if one.table == table.name]
            for row_key in in_stream[table.name] | in_cut[table.name]:
                is_at_both = row_key in in_stream[table.name] & in_cut[table.name]
                row = self.rows.of(table.name)[row_key]
                found += self._changes(table, row, columns, is_at_both=is_at_both)
        return tuple(sorted(found, key=lambda one: (one.commit_lsn, one.table, one.row_key)))

    @cached_property
    def _reached_at_both(self) -> tuple[Reached, Reached]:
        return self._reached(self.in_stream), self._reached(self.in_cut)

    def _reached(self, place: Place) -> Reached:
        """The rows that the fact leads to by the versions valid at a point."""
        found: dict[TableName, set[str]] = {name: set() for name in self.plan.tables}
        found[self.plan.fact.name].add(self.fact)
        before = 0
        while before != (before := _count(found)):
            for step in self.plan.steps:
                found[step.table] |= self.rows.led_to(step, found[step.from_table], place)
        self._remove_unjoined(found, place)
        return found

    def _remove_unjoined(self, found: dict[TableName, set[str]], place: Place) -> None:
        """Steps may not follow all equalities of a join; one that leaves a row out counts, too."""
        before = 0
        while before != (before := _count(found)):
            for table, equalities in self.plan.equalities.items():
                for one in equalities:
                    found[table] &= self.rows.led_to(one, found[one.from_table], place)

    def _changes(
        self, table: PlannedTable, row: RowHistory, columns: Iterable[str], *, is_at_both: bool
    ) -> Iterator[Change]:
        in_stream, in_cut = self.in_stream(row), self.in_cut(row)
        is_there = row.values(in_stream) is not None and row.values(in_cut) is not None
        if is_there and not is_at_both:
            steps = (*self.plan.steps, *self.plan.equalities.get(table.name, ()))
            leading_in = {one for step in steps if step.table == table.name for one in step.columns}
            columns = [name for name in columns if name in leading_in]
        first, last = sorted((in_stream, in_cut))
        changed: dict[int, dict[str, tuple[Any, Any]]] = defaultdict(dict)
        for name in columns:
            values = _ValuesOf(row, table.columns.index(name))
            if (place := values.last_change(first, last)) is not None:
                changed[place][name] = values.at(first), values.at(last)
        for place, of_columns in changed.items():
            yield _change(row, place, of_columns, is_in_cut=place <= in_cut)


def _count(found: Reached) -> int:
    return sum(map(len, found.values()))


@dataclass(frozen=True)
class _ValuesOf:
    """One column of a row, by the place of the version; null where the row is not there."""

    row: RowHistory
    column: int

    def at(self, place: int) -> Any:
        values = self.row.values(place)
        return None if values is None else values[self.column]

    def last_change(self, first: int, last: int) -> int | None:
        """The place of the version that gave the last value; None if the first was the same."""
        if comparable(self.at(first)) == comparable(self.at(last)):
            return None
        places = range(last, first, -1)
        return next(n for n in places if comparable(self.at(n)) != comparable(self.at(n - 1)))


def _change(
    row: RowHistory, place: int, columns: Mapping[str, tuple[Any, Any]], *, is_in_cut: bool
) -> Change:
    version = row.versions[place]
    return Change(
        table=row.table,
        row_key=row.row_key,
        op=row.op_of(place),
        tx_id=version.tx_id,
        commit_lsn=version.commit_lsn,
        committed_at=version.committed_at,
        is_in_cut=is_in_cut,
        columns=columns,
    )
