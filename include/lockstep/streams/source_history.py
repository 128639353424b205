"""A source's history: the change of each row that its pipelines read, written by one worker.

Every pipeline's stream decodes the topic itself; the history is what it starts from, what it asks
for rows that it does not keep, and what a comparison proves a drift by.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

import pyarrow as pa

from lockstep.cdc.records import Change
from lockstep.cdc.transactions import Transaction
from lockstep.faults import Point, reach
from lockstep.model.log import SNAPSHOT_COMMIT_LSN
from lockstep.pipeline.catalog import TableName
from lockstep.pipeline.delta_types import arrow_schema
from lockstep.pipeline.plan import PlannedTable
from lockstep.pipeline.result_tables import HISTORY_COLUMNS, HISTORY_PARTITION
from lockstep.sinks.append_log import AppendLog, Reached
from lockstep.streams.kept_tables import KEPT_TABLES, kept_of, kept_text
from lockstep.streams.large import LargeTransaction
from lockstep.streams.large_rows import large_versions
from lockstep.streams.sink import Sink
from lockstep.streams.stored_history import StoredHistory
from lockstep.streams.table_rows import Key, Living, RowVersion, TableRow, fold_rows, text_of

SCHEMA = arrow_schema(HISTORY_COLUMNS)


def history_log(
    uri: str,
    tables: Mapping[TableName, PlannedTable],
    versions_kept_hours: int,
    capture_id: int | None,
    versions_max: int | None = None,
) -> AppendLog:
    """The history's table, for its one writer; made if there is none.

    tables: which a new one is to keep, all of the connector's own snapshot. One that is there may
    lack some of them, and gets them by history_tables.py.
    capture_id: of what it will append. versions_max: as of AppendLog. Raises LakehouseError.
    """
    log = AppendLog(
        uri,
        SCHEMA,
        HISTORY_PARTITION,
        versions_kept_hours,
        capture_id,
        versions_max=versions_max,
    )
    if not log.description and KEPT_TABLES not in log.properties:
        log.set_property(KEPT_TABLES, kept_text(kept_of(tables.values())))
    return log


class SourceHistorySink(Sink):
    """Writes each transaction's rows, with the frontier."""

    pause_seconds = 1.0

    def __init__(
        self,
        log: AppendLog,
        tables: Mapping[TableName, PlannedTable],
        since: Mapping[TableName, int] | None = None,
    ) -> None:
        """tables: those that the source's pipelines read, each with all columns that any reads.

        since: the commit LSN of each table's snapshot: what the topic has of commits up to that of
        a side snapshot is in it, and passed over.
        """
        self._log = log
        self._side = {
            text_of(name): position
            for name, position in (since or {}).items()
            if position != SNAPSHOT_COMMIT_LSN
        }
        self._stored = StoredHistory(log.uri)
        self._tables = {text_of(name): table for name, table in tables.items()}
        self.wanted = frozenset(self._tables)

    @property
    def reached(self) -> Reached:
        return self._log.reached

    def write(
        self, transactions: Sequence[Transaction], frontier: int, resume_offset: int, seen_us: int
    ) -> pa.Table:
        newest: dict[tuple[str, Key], TableRow] = {}
        versions: list[RowVersion] = []
        for transaction in transactions:
            living = self._living_after(newest)
            changes = self._of_now(transaction)
            for version in fold_rows(transaction, changes, living):
                found = self._complete(version, newest)
                newest[found.table, found.row.key] = found.row
                versions.append(found)
        reach(Point.BEFORE_HISTORY)
        self._log.append(self._rows(versions), frontier, resume_offset)
        reach(Point.AFTER_HISTORY)
        return SCHEMA.empty_table()

    def write_large(self, large: LargeTransaction, resume_offset: int, seen_us: int) -> int:
        """Rows first, slice by slice; the frontier with the last commit."""
        reach(Point.BEFORE_HISTORY)
        written = 0
        wanted = self._wanted_at(large.transaction.commit_lsn)
        for versions in large_versions(large, wanted, self._living_after({})):
            rows = self._rows([self._complete(version, {}) for version in versions])
            self._log.add(rows)
            written += rows.num_rows
            reach(Point.AFTER_HISTORY_SLICE)
        self._log.append(SCHEMA.empty_table(), large.transaction.commit_lsn, resume_offset)
        reach(Point.AFTER_HISTORY)
        return written

    def maintain(self) -> bool:
        return self._log.maintain()

    def _wanted_at(self, commit_lsn: int) -> frozenset[str]:
        """The tables of which a transaction's changes are not in a side snapshot."""
        return self.wanted.difference(
            table for table, position in self._side.items() if commit_lsn <= position
        )

    def _of_now(self, transaction: Transaction) -> Iterable[Change]:
        wanted = self._wanted_at(transaction.commit_lsn)
        if wanted == self.wanted:
            return transaction.changes
        return [change for change in transaction.changes if change.table in wanted]

    def _complete(
        self, version: RowVersion, newest: Mapping[tuple[str, Key], TableRow]
    ) -> RowVersion:
        """With the large values that were not sent: from what is not written yet, or Delta."""
        if version.row.is_complete:
            return version
        before = newest.get((version.table, version.row.key))
        if before is None:
            table = self._tables[version.table]
            before = self._stored.row_before(table, version.row.key, version.commit_lsn)
        return version.filled(before)

    def _living_after(self, newest: Mapping[tuple[str, Key], TableRow]) -> Living:
        """Up to the frontier: a killed attempt may have left rows of the next transaction.

        The rows of a late table's snapshot are there before the frontier has come to it.
        """
        frontier = self._log.reached.frontier

        def living(table: str) -> Iterable[Key]:
            known, positions = self._tables.get(table), (frontier, self._side.get(table))
            reached = max((one for one in positions if one is not None), default=None)
            is_empty = known is None or reached is None
            stored = () if is_empty else self._stored.living(known, reached)
            unwritten = {key: row for (of, key), row in newest.items() if of == table}
            yield from (key for key in stored if key not in unwritten)
            yield from (key for key, row in unwritten.items() if row.values is not None)

        return living

    def _rows(self, versions: Sequence[RowVersion]) -> pa.Table:
        columns = {
            "table": [str(self._tables[one.table].name) for one in versions],
            "row_key": [self._tables[one.table].key_text(one.row.key) for one in versions],
            "op": [one.op for one in versions],
            "row": [self._row_text(one) for one in versions],
            "tx_id": [one.tx_id for one in versions],
            "commit_lsn": [one.commit_lsn for one in versions],
            "committed_at": [
                datetime.fromtimestamp(one.committed_us / 1e6, UTC) for one in versions
            ],
        }
        return pa.table(columns, schema=SCHEMA)

    def _row_text(self, version: RowVersion) -> str | None:
        if version.row.values is None:
            return None
        return self._tables[version.table].decoder.object_text(version.row.texts)
