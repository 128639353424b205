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
from lockstep.model.modes import StreamMode
from lockstep.pipeline.delta_types import arrow_schema
from lockstep.pizzeria import CHANGE_LOG_PARTITION, change_log_columns, change_log_table
from lockstep.settings import Settings
from lockstep.sinks.append_log import AppendLog, Reached
from lockstep.sources.delta import open_table, run_query
from lockstep.streams.fold import OrderChange, fold_orders
from lockstep.streams.large import LargeTransaction
from lockstep.streams.ops import DELETED
from lockstep.streams.rows import change_log_rows, no_rows, stamped


class Sink(ABC):
    """wanted: the tables whose rows are decoded for it.

    pause_seconds: between the beginnings of its micro-batches, at the least.
    """

    wanted: frozenset[str]
    pause_seconds = 0.0

    @property
    @abstractmethod
    def reached(self) -> Reached:
        """How far the sink's table goes."""

    @property
    def cached_rows(self) -> int:
        """Rows that it keeps in memory between micro-batches; any thread may ask."""
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
        """Compact now and then; called between micro-batches."""


class Enrichment(ABC):
    """What differs between the modes: where an order's names and prices come from.

    reports_orders: the table whose changes report orders (orders, the outbox, or messages).
    """

    reports_orders: str
    wanted: frozenset[str]

    @abstractmethod
    def enriched(self, changes: Sequence[OrderChange]) -> dict[str, pa.Array]:
        """order_time, client_name, table_name, pizzas of each change, in order.

        And is_raced and look_up in mode lookup.
        """


def open_change_log(
    settings: Settings,
    mode: StreamMode,
    capture_id: int | None = None,
    version: str | None = None,
) -> AppendLog:
    """The mode's change log, for its one writer.

    capture_id: of what it will append. version: of the pipeline; a new table is described by it.
    """
    return AppendLog(
        settings.table_uri(change_log_table(mode)),
        arrow_schema(change_log_columns(mode)),
        CHANGE_LOG_PARTITION,
        settings.stream_versions_kept_hours,
        capture_id,
        version,
    )


class ChangeLogSink(Sink):
    """The change log of one mode."""

    def __init__(self, log: AppendLog, enrichment: Enrichment) -> None:
        self._log = log
        self._enrichment = enrichment
        self.wanted = enrichment.wanted

    @property
    def reached(self) -> Reached:
        return self._log.reached

    def write(
        self, transactions: Sequence[Transaction], frontier: int, resume_offset: int, seen_us: int
    ) -> pa.Table:
        # Step 1: the orders' changes, enriched.
        changes: list[OrderChange] = []
        for transaction in transactions:
            changes += fold_orders(
                transaction,
                transaction.changes,
                self._enrichment.reports_orders,
                partial(self._living, changes),
            )
        rows = no_rows()
        if changes:
            rows = change_log_rows(changes, self._enrichment.enriched(changes), seen_us)
        # Step 2: one commit, with the frontier; only this makes anything visible.
        rows = stamped(rows, datetime.now(UTC))
        reach(Point.BEFORE_CHANGE_LOG)
        self._log.append(rows, frontier, resume_offset)
        reach(Point.AFTER_CHANGE_LOG)
        return rows

    def write_large(self, large: LargeTransaction, resume_offset: int, seen_us: int) -> int:
        slices = large.order_changes(self._enrichment.reports_orders, lambda: self._living([]))
        written = 0

        def batches() -> Iterator[pa.RecordBatch]:
            nonlocal written
            for changes in slices:
                rows = change_log_rows(changes, self._enrichment.enriched(changes), seen_us)
                written += rows.num_rows
                yield from stamped(rows, datetime.now(UTC)).combine_chunks().to_batches()

        reach(Point.BEFORE_CHANGE_LOG)
        self._log.append_stream(batches(), large.transaction.commit_lsn, resume_offset)
        reach(Point.AFTER_CHANGE_LOG)
        return written

    def maintain(self) -> bool:
        return self._log.maintain()

    def _living(self, changes: Sequence[OrderChange]) -> set[int]:
        """The orders alive after the changes that are not written yet; asked on TRUNCATE only."""
        query = (
            "SELECT order_id FROM (SELECT order_id, op, ROW_NUMBER() OVER "
            "(PARTITION BY order_id ORDER BY commit_lsn DESC) AS age FROM log) AS latest "
            "WHERE age = 1 AND op <> 'd'"
        )
        found = run_query(query, {"log": open_table(self._log.uri)}).read_all()
        living = set(found["order_id"].to_pylist())
        for change in changes:
            if change.op == DELETED:
                living.discard(change.order_id)
            else:
                living.add(change.order_id)
        return living
