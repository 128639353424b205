"""The versions of a source's rows, as its history has them, and which of them facts lead to.

Reads the history's Delta table without Spark. What the versions explain is not here: cause.py.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable

from lockstep.cdc.cuts import DatabaseSnapshot
from lockstep.errors import LakehouseError
from lockstep.model.log import SNAPSHOT_COMMIT_LSN
from lockstep.pipeline.catalog import TableName
from lockstep.pipeline.plan import Plan, PlannedTable
from lockstep.pipeline.query.reach import Reach
from lockstep.pipeline.values import comparable

NOWHERE = -1
"""The place of a row that is not there yet."""
Columns = tuple[str, ...]
Values = tuple[Any, ...]
_COLUMNS = ["row_key", "op", "row", "tx_id", "commit_lsn", "committed_at"]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Version(msgspec.Struct, frozen=True, gc=False):
    """A row as a transaction left it. values: in the order of the table's columns; None: deleted.

    tx_id: None in rows of a snapshot; of the connector's own commit_lsn is 0. committed_us:
    microseconds since the epoch.
    """

    values: tuple[Any, ...] | None
    tx_id: int | None
    commit_lsn: int
    committed_us: int | None

    @property
    def committed_at(self) -> datetime | None:
        return None if self.committed_us is None else _EPOCH + timedelta(0, 0, self.committed_us)


class RowHistory(msgspec.Struct, frozen=True, gc=False):
    """All versions of one row, in the order of their commits, at most one of a commit."""

    table: TableName
    row_key: str
    versions: tuple[Version, ...]

    def place_at(self, commit_lsn: int) -> int:
        """Which version is valid at a commit."""
        return bisect_right(self.versions, commit_lsn, key=lambda one: one.commit_lsn) - 1

    def place_in(self, seen: DatabaseSnapshot) -> int:
        """Which version a snapshot sees: the last one, though it may not see all before it."""
        places = [n for n, one in enumerate(self.versions) if is_seen(one.tx_id, seen)]
        return max(places, default=NOWHERE)

    def op_of(self, place: int) -> str:
        """What the transaction of a version did to the row: c, u or d."""
        if self.values(place) is None:
            return "d"
        return "u" if self.values(place - 1) is not None else "c"

    def values(self, place: int) -> tuple[Any, ...] | None:
        """The row at a place of versions; None where it is not there."""
        return None if place == NOWHERE else self.versions[place].values


Place = Callable[[RowHistory], int]
"""Which version of a row is valid at a point, by its place; NOWHERE before the first."""


class RowHistories:
    """The rows that some facts lead to, at any commit or in any snapshot, with all versions."""

    def __init__(self, tables: Mapping[TableName, PlannedTable]) -> None:
        self._tables = tables
        self._rows: dict[TableName, dict[str, RowHistory]] = {name: {} for name in tables}
        self._with: dict[tuple[TableName, Columns], dict[Values, set[str]]] = {}

    def add(self, rows: Iterable[RowHistory]) -> None:
        """Rows of any tables, with all of their versions."""
        for row in rows:
            self._rows[row.table][row.row_key] = row
        self._with.clear()

    def of(self, table: TableName) -> Mapping[str, RowHistory]:
        """The rows of a table by key."""
        return self._rows[table]

    def values_of(self, step: Reach) -> set[Values]:
        """The values by which a step leads on, of all versions that are there."""
        rows = self._rows[step.from_table].values()
        return self._leading(step, (one.values for row in rows for one in row.versions))

    def led_to(self, step: Reach, row_keys: Iterable[str], place: Place) -> set[str]:
        """The rows to which a step leads from these, by the versions valid at one point."""
        values_in = _values_in(self._tables[step.table], step.columns)
        leaders = (self._valid(step.from_table, row_key, place) for row_key in row_keys)
        return {
            row_key
            for values in self._leading(step, leaders)
            for row_key in self._ever_with(step.table, step.columns, values)
            if (row := self._valid(step.table, row_key, place)) and values_in(row) == values
        }

    def _leading(self, step: Reach, rows: Iterable[tuple[Any, ...] | None]) -> set[Values]:
        columns = self._tables[step.from_table].columns
        places = [columns.index(name) for name in step.from_columns]
        return {
            values
            for row in rows
            if row
            for values in leading(tuple(row[place] for place in places), step)
        }

    def last_change_of(
        self, table: TableName, columns: Columns, values: Values, seen: DatabaseSnapshot
    ) -> int:
        """The last commit that a snapshot sees of a row which had these values, before or after it.

        NOWHERE when there is none.
        """
        values_in = _values_in(self._tables[table], columns)
        wanted, last = tuple(map(comparable, values)), NOWHERE
        for row_key in self._ever_with(table, columns, wanted):
            before: Values | None = None
            for version in self._rows[table][row_key].versions:
                after = None if version.values is None else values_in(version.values)
                if wanted in (before, after) and is_seen(version.tx_id, seen):
                    last = max(last, version.commit_lsn)
                before = after
        return last

    def _valid(self, table: TableName, row_key: str, place: Place) -> tuple[Any, ...] | None:
        row = self._rows[table][row_key]
        return row.values(place(row))

    def _ever_with(self, table: TableName, columns: Columns, values: Values) -> Collection[str]:
        """The keys of the rows that had these values (as `leading` gives them) in any version."""
        if (table, columns) not in self._with:
            values_in = _values_in(self._tables[table], columns)
            found: dict[Values, set[str]] = defaultdict(set)
            for row_key, row in self._rows[table].items():
                for one in row.versions:
                    if one.values:
                        found[values_in(one.values)].add(row_key)
            self._with[table, columns] = found
        return self._with[table, columns].get(values, ())


class HistoryReader:
    """One version of a source's history. Its methods raise LakehouseError with the reason."""

    def __init__(self, history: DeltaTable, tables: Mapping[TableName, PlannedTable]) -> None:
        self._rows, self._uri = history.to_pyarrow_dataset(), history.table_uri
        self._tables = tables

    def first_of_snapshot(self) -> datetime | None:
        """When the first row of the initial snapshot was read; None when that had no rows."""
        condition = ds.field("commit_lsn") == SNAPSHOT_COMMIT_LSN
        with self._read_errors():
            rows = self._rows.to_table(columns=["committed_at"], filter=condition)
        return pc.min(rows["committed_at"]).as_py()

    def of_keys(self, table: TableName, row_keys: Collection[str]) -> Iterator[RowHistory]:
        """These rows of a table, as far as the history has them."""
        if not row_keys:
            return
        wanted = _of(table) & ds.field("row_key").isin(sorted(row_keys))
        found: dict[str, dict[int, Version]] = defaultdict(dict)
        for row_key, op, row, tx_id, commit_lsn, committed_us in self._read(_COLUMNS, wanted):
            values = None if op == "d" else self._decoded(table, row)
            found[row_key][commit_lsn] = Version(values, tx_id, commit_lsn, committed_us)
        for row_key, versions in found.items():
            in_order = tuple(versions[lsn] for lsn in sorted(versions))
            yield RowHistory(table, row_key, in_order)

    def keys_with(self, table: TableName, columns: Columns, values: Collection[Values]) -> set[str]:
        """The keys of a table's rows of which a version has some of the values in these columns.

        values: as `leading` gives them. Reads the table's whole history, unless the columns are its
        primary key.
        """
        planned = self._tables[table]
        if planned.key == columns:
            return set(map(planned.key_text, values))
        if not values:
            return set()
        values_in = _values_in(planned, columns)
        return {
            row_key
            for row_key, row in self._read(["row_key", "row"], _of(table) & (ds.field("op") != "d"))
            if values_in(self._decoded(table, row)) in values
        }

    def _read(self, columns: list[str], condition: ds.Expression) -> Iterator[tuple[Any, ...]]:
        """The values of each row in the order of the columns; times in microseconds."""
        with self._read_errors():
            for batch in self._rows.to_batches(columns=columns, filter=condition):
                yield from zip(*map(_plain, batch.columns), strict=True)

    @contextmanager
    def _read_errors(self) -> Iterator[None]:
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            raise LakehouseError(
                f"the source's history {self._uri} cannot be read: {error}; compare again"
            ) from error

    def _decoded(self, table: TableName, row: str) -> tuple[Any, ...]:
        try:
            return msgspec.structs.astuple(self._tables[table].decoder.decode(row.encode()))
        except ValueError as error:
            raise LakehouseError(
                f"the source's history has a row that the catalog does not fit: {error}. Write the "
                "catalog again with `lockstep source add`"
            ) from error


def reached_rows(reader: HistoryReader, plan: Plan, facts: Collection[str]) -> RowHistories:
    """The facts with these keys, and all rows that any of their versions may lead to.

    A step is followed again while it leads on: a table that is joined with itself again and again
    is reached by the same step each time.
    """
    rows = RowHistories(plan.tables)
    rows.add(reader.of_keys(plan.fact.name, facts))
    followed: dict[Reach, set[Values]] = {step: set() for step in plan.steps}
    while more := {s: new for s in plan.steps if (new := rows.values_of(s) - followed[s])}:
        for step, values in more.items():
            followed[step] |= values
            row_keys = reader.keys_with(step.table, step.columns, values)
            rows.add(reader.of_keys(step.table, row_keys - rows.of(step.table).keys()))
    return rows


def _plain(column: pa.Array) -> list[Any]:
    """An instant's microseconds are made of integers twenty times as fast as datetimes."""
    return (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()


def _of(table: TableName) -> ds.Expression:
    return ds.field("table") == str(table)


def is_seen(tx_id: int | None, seen: DatabaseSnapshot) -> bool:
    """Whether a snapshot sees a transaction; None is of before every snapshot."""
    return tx_id is None or (tx_id < seen.xmax and tx_id not in seen.in_progress)


def leading(values: Values, step: Reach) -> Iterator[Values]:
    """The values by which a step leads on from those of a row; nulls lead nowhere."""
    for one in ((element,) for element in values[0] or ()) if step.is_element else (values,):
        if None not in one:
            yield tuple(map(comparable, one))


def _values_in(table: PlannedTable, columns: Columns) -> Callable[[Values], Values]:
    """Takes the values of these columns out of those of a row."""
    places = [table.columns.index(name) for name in columns]
    return lambda row: tuple(comparable(row[place]) for place in places)
