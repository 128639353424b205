"""What a stream's query writes to: a change log, or a source's history.

A sink turns whole transactions into rows and commits them with the frontier; reading, decoding and
following transactions is the runner's.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import partial

import pyarrow as pa

from lockstep.cdc.transactions import Transaction
from lockstep.faults import Point, reach
from lockstep.pipeline.modes import Mode
from lockstep.pipeline.plan import Plan
from lockstep.pipeline.result_tables import CHANGE_PARTITION
from lockstep.pipeline.row_keys import quoted
from lockstep.settings import Settings
from lockstep.sinks.append_log import AppendLog, Reached
from lockstep.sources.delta import open_table, run_query
from lockstep.streams.large import LargeTransaction
from lockstep.streams.large_rows import large_versions
from lockstep.streams.ops import DELETED
from lockstep.streams.rows import change_log_rows, change_log_schema, stamped
from lockstep.streams.table_rows import Key, RowVersion, fold_rows, followed


class Sink(ABC):
    """wanted: the tables whose rows are decoded for it.

    pause_seconds: between the beginnings of its writes, at the least.
    """

    wanted: frozenset[str]
    pause_seconds = 0.0

    @property
    @abstractmethod
    def reached(self) -> Reached:
        """How far the sink's table goes."""

    @property
    def cached_rows(self) -> int:
        """Rows that it keeps in memory between writes; any thread may ask."""
        return 0

    @abstractmethod
    def write(
        self, transactions: Sequence[Transaction], frontier: int, resume_offset: int, seen_us: int
    ) -> pa.Table:
        """Commit what the transactions say, with the frontier; returns the rows, once readable.

        All lie after the table's frontier, in commit order, and fit into memory.
        """

    @abstractmethod
    def write_large(self, large: LargeTransaction, resume_offset: int, seen_us: int) -> int:
        """Commit one transaction that does not fit into memory, whole; returns its rows' number."""

    @abstractmethod
    def maintain(self) -> bool:
        """Compact now and then; another thread may call it, also while rows are written."""


class Enrichment(ABC):
    """What differs between the modes that write each change of the fact: where its values are from.

    wanted: the one table whose rows are read: the fact, its outbox, or the messages. fact: the
    table whose TRUNCATE deletes every row.
    """

    wanted: frozenset[str]
    fact: str

    @abstractmethod
    def enriched(self, changes: Sequence[RowVersion]) -> dict[str, pa.Array]:
        """The result's values of each change, in order; of mode lookup is_raced and look_up."""


def open_change_log(
    settings: Settings, plan: Plan, mode: Mode, capture_id: int | None = None
) -> AppendLog:
    """The mode's change log, for its one writer; made if there is none.

    A new table is described by the pipeline's version. capture_id: of what will be appended.
    Raises PipelineError without a result.lock, and LakehouseError.
    """
    return AppendLog(
        settings.table_uri(plan.change_log(mode)),
        change_log_schema(plan.result, mode),
        CHANGE_PARTITION,
        settings.stream_versions_kept_hours,
        capture_id,
        plan.version,
        versions_max=settings.stream_versions_max,
    )


class ChangeLogSink(Sink):
    """The change log of one mode."""

    def __init__(self, log: AppendLog, enrichment: Enrichment, key: Sequence[str]) -> None:
        """key: the result's key columns."""
        self._log = log
        self._enrichment = enrichment
        self._key = key
        self.wanted = enrichment.wanted

    @property
    def reached(self) -> Reached:
        return self._log.reached

    def write(
        self, transactions: Sequence[Transaction], frontier: int, resume_offset: int, seen_us: int
    ) -> pa.Table:
        # Step 1: the rows' changes, enriched.
        changes: list[RowVersion] = []
        for transaction in transactions:
            changes += fold_rows(
                transaction,
                followed(transaction.changes, self.wanted, self._enrichment.fact),
                partial(self._living, changes),
            )
        rows = self._rows(changes, seen_us)
        # Step 2: one commit, with the frontier; only this makes anything visible.
        reach(Point.BEFORE_CHANGE_LOG)
        self._log.append(rows, frontier, resume_offset)
        reach(Point.AFTER_CHANGE_LOG)
        return rows

    def write_large(self, large: LargeTransaction, resume_offset: int, seen_us: int) -> int:
        slices = large_versions(
            large, self.wanted, partial(self._living, ()), self._enrichment.fact
        )
        written = 0

        def batches() -> Iterator[pa.RecordBatch]:
            nonlocal written
            for changes in slices:
                rows = self._rows(changes, seen_us)
                written += rows.num_rows
                yield from rows.combine_chunks().to_batches()

        reach(Point.BEFORE_CHANGE_LOG)
        self._log.append_stream(batches(), large.transaction.commit_lsn, resume_offset)
        reach(Point.AFTER_CHANGE_LOG)
        return written

    def maintain(self) -> bool:
        return self._log.maintain()

    def _rows(self, changes: Sequence[RowVersion], seen_us: int) -> pa.Table:
        if not changes:
            return self._log.schema.empty_table()
        enriched = self._enrichment.enriched(changes)
        rows = change_log_rows(changes, enriched, seen_us, self._key, self._log.schema)
        return stamped(rows, datetime.now(UTC))

    def _living(self, changes: Sequence[RowVersion], _table: str) -> set[Key]:
        """The rows alive after the changes that are not written yet; asked on TRUNCATE only."""
        found = run_query(_living_query(self._key), {"log": open_table(self._log.uri)}).read_all()
        living = set(zip(*(found[name].to_pylist() for name in self._key), strict=True))
        for change in changes:
            if change.op == DELETED:
                living.discard(change.row.key)
            else:
                living.add(change.row.key)
        return living


def _living_query(key: Sequence[str]) -> str:
    """The keys of `log` whose last change is no delete."""
    columns = ", ".join(map(quoted, key))
    return f"""
        SELECT {columns} FROM (SELECT {columns}, op, ROW_NUMBER() OVER
        (PARTITION BY {columns} ORDER BY commit_lsn DESC) AS age FROM log) AS latest
        WHERE age = 1 AND op <> 'd'
    """  # noqa: S608 - quoted names alone
