"""The versions of a source's rows that a driver keeps in memory, found by key or by another column.

A version of a row is valid from its transaction's commit LSN to that of the next transaction that
changes the row. A table of more than KEPT_ROWS_MAX rows is not kept: its versions are read from the
source's history. Pure.
"""

import bisect
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa

from lockstep.pipeline.plan import PlannedTable
from lockstep.pipeline.types import arrow_schema
from lockstep.pipeline.values import comparable
from lockstep.streams.table_rows import Key

KEPT_ROWS_MAX = 200_000
"""Rows of one table kept in memory: some 100 MB."""
SMALL_ROWS_MAX = 500
"""A table of so few rows is joined as a whole, and stays bound until it changes."""
FOREVER = 2**63 - 1
Values = tuple[object, ...] | None
Columns = tuple[str, ...]


class Version(NamedTuple):
    """A row from a commit on. values: None when it is deleted."""

    key: Key
    commit_lsn: int
    values: Values


class TableVersions:
    """All versions of one table's rows that may still be needed.

    count: of versions; any thread may read it.
    """

    def __init__(self, table: PlannedTable, looked_up: Collection[Columns]) -> None:
        """looked_up: the columns by which rows are found; the key alone needs no index."""
        self.table = table
        self.count = 0
        self._rows: dict[Key, list[tuple[int, Values]]] = {}
        self._indexes = {
            columns: _Index([table.columns.index(name) for name in columns])
            for columns in looked_up
            if columns != table.key
        }
        self._whole: pa.Table | None = None

    def __len__(self) -> int:
        return len(self._rows)

    def take(self, version: Version, settled_lsn: int) -> None:
        """Add a version, known or not. What ended at or before settled_lsn is forgotten."""
        versions = self._rows.setdefault(version.key, [])
        at = bisect.bisect_left(versions, version.commit_lsn, key=lambda known: known[0])
        if at < len(versions) and versions[at][0] == version.commit_lsn:
            return
        versions.insert(at, (version.commit_lsn, version.values))
        self._note(version.key, version.values)
        while len(versions) > 1 and versions[1][0] <= settled_lsn:
            _, values = versions.pop(0)
            self._forget(version.key, values)
        self._whole = None

    def before(self, key: Key, commit_lsn: int) -> Values:
        """The row's values before a commit; None when there is no such row."""
        versions = self._rows.get(key, ())
        at = bisect.bisect_left(versions, commit_lsn, key=lambda known: known[0])
        return versions[at - 1][1] if at else None

    def living(self, commit_lsn: int) -> list[Key]:
        """The keys of the rows that there were after a commit."""
        after = commit_lsn + 1
        return [key for key in self._rows if self.before(key, after) is not None]

    def keys_by(self, columns: Columns, values: Collection[Key]) -> set[Key]:
        """The keys of the rows of which a version has some of the values; nulls find nothing."""
        if columns == self.table.key:
            return {value for value in values if value in self._rows}
        return self._indexes[columns].keys(values)

    def versions(self, keys: Iterable[Key]) -> Iterator[Version]:
        """All kept versions of these rows, those of one row together and in order."""
        for key in keys:
            for commit_lsn, values in self._rows.get(key, ()):
                yield Version(key, commit_lsn, values)

    def relation(self, keys: Collection[Key]) -> pa.Table:
        """All kept versions of these rows at least, as the query's view of the table.

        Of a small table those of all rows, and the same Arrow table until one changes.
        """
        if len(self._rows) > SMALL_ROWS_MAX:
            return relation(self.table, self.versions(keys))
        if self._whole is None:
            self._whole = relation(self.table, self.versions(self._rows))
        return self._whole

    def _note(self, key: Key, values: Values) -> None:
        self.count += 1
        for index in self._indexes.values():
            index.add(key, values)

    def _forget(self, key: Key, values: Values) -> None:
        self.count -= 1
        for index in self._indexes.values():
            index.remove(key, values)


class _Index:
    """Keys by the values that a version of the row has in some columns."""

    def __init__(self, places: Collection[int]) -> None:
        self._places = places
        self._keys: dict[Key, Counter[Key]] = {}

    def add(self, key: Key, values: Values) -> None:
        if (value := self._value(values)) is not None:
            self._keys.setdefault(value, Counter())[key] += 1

    def remove(self, key: Key, values: Values) -> None:
        if (value := self._value(values)) is None:
            return
        keys = self._keys[value]
        keys[key] -= 1
        if not keys[key]:
            del keys[key]
        if not keys:
            del self._keys[value]

    def keys(self, values: Collection[Key]) -> set[Key]:
        return {key for value in values for key in self._keys.get(value, ())}

    def _value(self, values: Values) -> Key | None:
        if values is None:
            return None
        found = tuple(comparable(values[place]) for place in self._places)
        return None if None in found else found


def relation(table: PlannedTable, versions: Iterable[Version]) -> pa.Table:
    """A table's columns, valid_from and valid_to (commit LSNs); deleted rows are absent.

    versions: those of one row together and in order.
    """
    starts: list[int] = []
    ends: list[int] = []
    rows: list[Values] = []
    last_key: Key | None = None
    for version in versions:
        if version.key == last_key:
            ends[-1] = version.commit_lsn
        starts.append(version.commit_lsn)
        ends.append(FOREVER)
        rows.append(version.values)
        last_key = version.key
    schema = arrow_schema(table.types)
    columns = {
        name: pa.array(
            [None if row is None else row[place] for row in rows], schema.field(name).type
        )
        for place, name in enumerate(table.columns)
    }
    columns["valid_from"] = pa.array(starts, pa.int64())
    columns["valid_to"] = pa.array(ends, pa.int64())
    return pa.table(columns).filter(pa.array([row is not None for row in rows], pa.bool_()))


def values_of(relation: pa.Table, columns: Columns, is_element: bool) -> set[Key]:
    """The values of a relation's columns, or the elements of an array, as `comparable` gives them.

    Without those that have a null, which lead nowhere.
    """
    if len(columns) == 1:  # three times as fast as groups
        found = relation[columns[0]].combine_chunks()
        values = (found.flatten() if is_element else found).unique().to_pylist()
        return {(comparable(value),) for value in values if value is not None}
    distinct = relation.select(columns).group_by(list(columns)).aggregate([])
    rows = zip(*(distinct[name].to_pylist() for name in columns), strict=True)
    return {tuple(map(comparable, row)) for row in rows if None not in row}
