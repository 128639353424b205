"""The versions of a source's rows that a driver keeps, found by key or by another column.

A version of a row is valid from its transaction's commit LSN to that of the next transaction that
changes the row. A table of more than KEPT_ROWS_MAX rows is not kept: its versions are read from the
source's history. Pure.
"""

import bisect
import threading
from collections.abc import Collection, Iterable, Iterator
from functools import partial
from operator import itemgetter
from typing import NamedTuple
from weakref import WeakValueDictionary

import pyarrow as pa

from lockstep.pipeline.plan import PlannedTable
from lockstep.pipeline.types import arrow_schema
from lockstep.pipeline.values import comparable
from lockstep.streams.row_store import RowStore, Values, Versions
from lockstep.streams.table_rows import Key

KEPT_ROWS_MAX = 200_000
"""Rows of one table that are kept: some 20 MB of a temporary file. What bounds them is that a
stream that starts reads them all, in a few seconds."""
SMALL_ROWS_MAX = 500
"""A table of so few rows is joined as a whole, and stays bound until it changes."""
FOREVER = 2**63 - 1
Columns = tuple[str, ...]


class Version(NamedTuple):
    """A row from a commit on. values: None when it is deleted."""

    key: Key
    commit_lsn: int
    values: Values


class SharedVersions:
    """The versions that the streams of one process keep, those of a table once for all of them."""

    def __init__(self) -> None:
        self._tables: WeakValueDictionary[tuple, TableVersions] = WeakValueDictionary()
        self._lock = threading.Lock()

    def of(self, table: PlannedTable, looked_up: Collection[Columns]) -> "TableVersions":
        """Those of a table, which are there for as long as a stream holds them.

        looked_up: the columns by which rows are found.
        """
        types = [(name, one.pg, one.time_zone) for name, one in table.types.items()]
        place = (table.name, table.key, tuple(types), frozenset(looked_up))
        with self._lock:
            found = self._tables.get(place)
            if found is None:
                found = self._tables[place] = TableVersions(table, looked_up)
            return found

    def leave(self, stream: str) -> None:
        """The stream has ended: it needs none of them any more."""
        with self._lock:
            for table in list(self._tables.values()):
                table.leave(stream)


class TableVersions:
    """All versions of one table's rows that a stream may still need.

    Each stream that reads them takes every version after its own frontier, in the order of commits,
    and calls `settle` before it takes the first. So a stream that is ahead of others adds to
    what they find only versions that begin later. Any thread may call it.
    """

    def __init__(self, table: PlannedTable, looked_up: Collection[Columns]) -> None:
        """looked_up: the columns by which rows are found; the key alone needs no index."""
        self.table = table
        self._places = {
            columns: tuple(table.columns.index(name) for name in columns)
            for columns in looked_up
            if columns != table.key
        }
        self._rows = RowStore(self._places.values())
        self._whole: pa.Table | None = None
        self._settled: dict[str, int] = {}
        self._settled_by_all = -1
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def count(self) -> int:
        """Of versions."""
        return self._rows.count

    def settle(self, stream: str, commit_lsn: int) -> None:
        """The stream needs no version that ended at this commit or before."""
        with self._lock:
            self._settled[stream] = commit_lsn
            self._settled_by_all = min(self._settled.values())

    def leave(self, stream: str) -> None:
        """The stream needs none of them any more."""
        with self._lock:
            self._settled.pop(stream, None)
            self._settled_by_all = min(self._settled.values(), default=-1)

    def take(self, version: Version) -> None:
        """Add a version, known or not. What no stream needs of the row any more is forgotten."""
        with self._lock:
            if self._rows.change(version.key, partial(self._with, version)):
                self._whole = None

    def before(self, key: Key, commit_lsn: int) -> Values:
        """The row's values before a commit; None when there is no such row."""
        return _values_before(self._versions(key), commit_lsn)

    def living(self, commit_lsn: int) -> list[Key]:
        """The keys of the rows that there were after a commit."""
        with self._lock:
            return [
                key
                for key, versions in self._rows.items()
                if _values_before(versions, commit_lsn + 1) is not None
            ]

    def keys_by(self, columns: Columns, values: Collection[Key]) -> set[Key]:
        """The keys of the rows of which a version has some of the values; nulls find nothing."""
        with self._lock:
            if columns == self.table.key:
                return {value for value in values if self._rows.versions(value)}
            return self._rows.keys_by(self._places[columns], values)

    def versions(self, keys: Iterable[Key]) -> Iterator[Version]:
        """All kept versions of these rows, those of one row together and in order."""
        return _each_version((key, self._versions(key)) for key in keys)

    def relation(self, keys: Collection[Key]) -> pa.Table:
        """All kept versions of these rows at least, as the query's view of the table.

        Of a small table those of all rows, and the same Arrow table until one changes.
        """
        if len(self._rows) > SMALL_ROWS_MAX:
            return relation(self.table, self.versions(keys))
        with self._lock:
            if self._whole is None:
                self._whole = relation(self.table, _each_version(self._rows.items()))
            return self._whole

    def _versions(self, key: Key) -> Versions:
        with self._lock:
            return self._rows.versions(key)

    def _with(self, version: Version, before: Versions) -> Versions:
        """The row's versions with this one; the same object when it is among them."""
        at = bisect.bisect_left(before, version.commit_lsn, key=itemgetter(0))
        if at < len(before) and before[at][0] == version.commit_lsn:
            return before
        after = (*before[:at], (version.commit_lsn, version.values), *before[at:])
        while len(after) > 1 and after[1][0] <= self._settled_by_all:
            after = after[1:]
        return after


def _values_before(versions: Versions, commit_lsn: int) -> Values:
    at = bisect.bisect_left(versions, commit_lsn, key=itemgetter(0))
    return versions[at - 1][1] if at else None


def _each_version(rows: Iterable[tuple[Key, Versions]]) -> Iterator[Version]:
    for key, versions in rows:
        for commit_lsn, values in versions:
            yield Version(key, commit_lsn, values)


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
