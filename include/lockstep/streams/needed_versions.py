"""The versions of rows that facts lead to: in memory, or read from the history.

One object for each stream; the versions in memory are the driver's, once for all of its streams.
The history in Delta has one writer, another worker; what a stream needs of it is waited for, and
what is kept in memory it takes from the change topic itself.
"""

import time
from collections.abc import Collection, Iterable, Sequence

import pyarrow as pa

from lockstep.errors import StreamError
from lockstep.pipeline.catalog import TableName
from lockstep.pipeline.plan import Plan
from lockstep.streams.stored_history import StoredHistory
from lockstep.streams.table_rows import Key, RowVersion, TableRow, text_of
from lockstep.streams.versions import (
    KEPT_ROWS_MAX,
    Columns,
    SharedVersions,
    TableVersions,
    Version,
    relation,
    values_of,
)

STORED_SECONDS_MAX = 120.0
"""A stream waits this long for the history to get on."""
STORED_PAUSE_SECONDS = 0.2
FACT_VERSIONS_MAX = 5 * KEPT_ROWS_MAX
"""A fact with more of them is not looked through to find that it has too many rows to be kept."""


class NeededVersions:
    """Follows the tables that the query's look-ups lead to, and the fact if it is among them.

    It follows the fact of a pipeline with children, too: their changes touch rows of it.
    """

    def __init__(
        self,
        plan: Plan,
        history: StoredHistory,
        frontier: int | None,
        stream: str = "",
        shared: SharedVersions | None = None,
    ) -> None:
        """frontier: of the change log; versions that ended before it are not needed in memory.

        shared: what the streams of the process keep, of which this is one with a name of its own;
        without it the stream is alone.
        """
        self._plan = plan
        self._history = history
        self._settled = self._taken = -1 if frontier is None else frontier
        self._tables = {text_of(name): table for name, table in plan.tables.items()}
        self._empty = {name: relation(table, ()) for name, table in plan.tables.items()}
        self._stream, shared = stream, shared or SharedVersions()
        self._kept = {
            text_of(name): shared.of(plan.tables[name], columns)
            for name, columns in _looked_up(plan).items()
        }
        if plan.children and history.count(plan.fact) > FACT_VERSIONS_MAX:
            self._kept.pop(text_of(plan.fact.name))
        self.loaded = history.reached()
        for table, kept in list(self._kept.items()):
            kept.settle(stream, self._settled)
            self._load(table, kept, frontier)

    @property
    def count(self) -> int:
        """Versions in memory, of which others may need some, too; any thread may ask."""
        return sum(kept.count for kept in list(self._kept.values()))

    @property
    def settled(self) -> int:
        """The change log's frontier; -1 before its first row."""
        return self._settled

    def take(self, versions: Iterable[RowVersion], commit_lsn: int) -> None:
        """Add what a transaction left, complete."""
        self._taken = commit_lsn
        for one in versions:
            kept = self._kept.get(one.table)
            if kept is None:
                continue
            kept.take(Version(one.row.key, commit_lsn, one.row.values))
            if len(kept) > KEPT_ROWS_MAX:
                self._leave(one.table)

    def settle(self, frontier: int) -> None:
        """All up to this commit is evaluated and written."""
        self._settled = self._taken = frontier
        for kept in self._kept.values():
            kept.settle(self._stream, frontier)

    def complete(self, version: RowVersion) -> RowVersion:
        """With the large values that were not sent, from memory or, once it is there, the history.

        Raises StreamError when the history does not get there, or does not have them.
        """
        if version.row.is_complete:
            return version
        table, key = self._tables[version.table], version.row.key
        kept = self._kept.get(version.table)
        values = None if kept is None else kept.before(key, version.commit_lsn)
        if values is not None:
            return version.filled(TableRow(key, values))
        self.wait_until_stored(version.commit_lsn)
        return version.filled(self._history.row_before(table, key, version.commit_lsn + 1))

    def values_before(
        self, table: str, keys: Collection[Key], commit_lsn: int
    ) -> dict[Key, tuple[object, ...]]:
        """The rows with these keys before a commit, as far as there are any; all of it is taken,
        or nothing yet."""
        kept = self._kept.get(table)
        if kept is not None:
            found = {key: kept.before(key, commit_lsn) for key in keys}
        else:
            self.wait_until_stored(self._taken)
            found = self._history.values_before(self._tables[table], keys, commit_lsn)
        return {key: values for key, values in found.items() if values is not None}

    def living(self, table: str) -> Iterable[Key]:
        """The keys of a table's rows, before the transaction that is not taken yet."""
        kept = self._kept.get(table)
        if kept is not None:
            return kept.living(self._taken)
        if table not in self._tables:
            return ()
        self.wait_until_stored(self._taken)
        return list(self._history.living(self._tables[table], self._taken))

    def relations(self, facts: Sequence[Version]) -> dict[TableName, pa.Table]:
        """Every table that the query reads, with the versions that these of the fact lead to.

        facts: those to be written, taken before, those of one row together and in order.
        """
        fact = self._plan.query.fact
        keys: dict[TableName, set[Key]] = {fact: {one.key for one in facts}}
        stored: dict[TableName, list[Version]] = {fact: list(facts)}
        found = {**self._empty, fact: relation(self._plan.fact, facts)}
        for step in self._plan.steps:
            table = self._plan.tables[step.table]
            leading = found[step.from_table]
            values = values_of(leading, step.from_columns, is_element=step.is_element)
            kept = self._kept.get(text_of(step.table))
            if kept is not None:
                keys.setdefault(step.table, set()).update(kept.keys_by(step.columns, values))
                found[step.table] = kept.relation(keys[step.table])
            else:
                self.wait_until_stored(self._taken)
                more = self._history.versions_by(table, step.columns, values)
                stored.setdefault(step.table, []).extend(more)
                found[step.table] = relation(table, _once(stored[step.table]))
        return found

    def wait_until_stored(self, commit_lsn: int) -> None:
        """Until the history has all up to a commit.

        Raises StreamError when it does not get on for STORED_SECONDS_MAX.
        """
        reached, since = self._history.reached().frontier, time.monotonic()
        while reached is None or reached < commit_lsn:
            if time.monotonic() - since > STORED_SECONDS_MAX:
                raise StreamError(
                    f"the history {self._history.uri} is at LSN {reached}, of {commit_lsn}, and "
                    f"does not get on for {STORED_SECONDS_MAX:.0f} s: does its writer run?"
                )
            time.sleep(STORED_PAUSE_SECONDS)
            before, reached = reached, self._history.reached().frontier
            since = since if reached == before else time.monotonic()

    def _load(self, table: str, kept: TableVersions, frontier: int | None) -> None:
        for version in self._history.versions(kept.table, frontier):
            kept.take(version)
            if len(kept) > KEPT_ROWS_MAX:
                self._leave(table)
                return

    def _leave(self, table: str) -> None:
        """From now on the table's rows are read from the history."""
        self._kept.pop(table).leave(self._stream)


def _looked_up(plan: Plan) -> dict[TableName, set[Columns]]:
    """The tables that look-ups lead to, each with the columns by which they do."""
    columns: dict[TableName, set[Columns]] = {}
    for step in plan.steps:
        columns.setdefault(step.table, set()).add(step.columns)
    if plan.children:
        columns.setdefault(plan.fact.name, set())
    return columns


def _once(versions: Sequence[Version]) -> list[Version]:
    """Each version once, those of one row together and in order."""
    by_row: dict[Key, dict[int, Version]] = {}
    for version in versions:
        by_row.setdefault(version.key, {})[version.commit_lsn] = version
    return [row[commit_lsn] for row in by_row.values() for commit_lsn in sorted(row)]
