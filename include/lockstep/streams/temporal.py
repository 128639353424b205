"""Mode `temporal`: each order joined with the rows of the dimensions valid at its own commit.

The state is the dimensions' history in Delta, written before the orders that may need it, and a
cache of it in the driver. The join is the hourly run's own SQL. The `history` query is the same
without the orders.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from lockstep.cdc.transactions import Transaction
from lockstep.contracts import CLIENTS, DIMENSION_TABLES, ORDERS, PIZZAS, TABLE_ASSIGNMENT, TABLES
from lockstep.enrich.orders import enrich_orders
from lockstep.settings import Settings
from lockstep.sinks.append_log import AppendLog, Reached
from lockstep.streams import faults
from lockstep.streams.dimensions import (
    FOREVER,
    DimensionCache,
    history_log,
    history_rows,
    load_cache,
    stored_relation,
    versions_of,
)
from lockstep.streams.fold import OrderChange
from lockstep.streams.large import LargeTransaction
from lockstep.streams.rows import SCHEMA
from lockstep.streams.sink import Enrichment, Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ORDERS_RELATION = pa.schema(
    [
        ("id", pa.int64()),
        ("table_assignment_id", pa.int64()),
        ("order_time", pa.timestamp("us", "UTC")),
        ("pizzas", pa.list_(pa.int64())),
        ("valid_from", pa.int64()),
        ("valid_to", pa.int64()),
    ]
)


class History:
    """The dimensions as the change topic tells them: kept in memory, and in Delta if `log`."""

    def __init__(self, settings: Settings, log: AppendLog | None, frontier: int | None) -> None:
        """frontier: of the orders' change log; older versions are not needed in memory."""
        self._settings = settings
        self._log = log
        self._settled = -1 if frontier is None else frontier
        self.cached: DimensionCache = load_cache(settings, frontier)

    def learn(self, transactions: Sequence[Transaction], resume_offset: int) -> None:
        """Take in the transactions' changes of dimensions; durable when this returns.

        The history's frontier moves with its rows; one that has them already is not written.
        """
        versions = []
        for transaction in transactions:
            found = versions_of(transaction, transaction.changes or (), self.cached)
            for version in found:
                self.cached.take(version, self._settled)
            versions += found
        self._settled = transactions[-1].commit_lsn
        if self._log is None:
            return
        reached = self._log.reached.frontier
        new = [v for v in versions if reached is None or v.commit_lsn > reached]
        if new:
            self._log.append(history_rows(new), transactions[-1].commit_lsn, resume_offset)

    def learn_large(self, large: LargeTransaction) -> None:
        """The same, slice by slice: rows first, the frontier with the next transaction."""
        reached = None if self._log is None else self._log.reached.frontier
        is_new = reached is None or large.transaction.commit_lsn > reached
        for changes in large.changes(DIMENSION_TABLES):
            versions = versions_of(large.transaction, changes, self.cached)
            for version in versions:
                self.cached.take(version, self._settled)
            if self._log is not None and is_new:
                self._log.add(history_rows(versions))
        if self._log is not None and is_new:
            transaction = large.transaction
            self._log.append(history_rows([]), transaction.commit_lsn, transaction.offsets.first)

    def maintain(self) -> None:
        if self._log is not None:
            self._log.maintain()

    def relation(self, spark: "SparkSession", dimension: str, ids: set[int]) -> pa.Table:
        if self.cached.holds(dimension):
            return self.cached.relation(dimension, ids)
        return stored_relation(spark, self._settings, dimension, ids)


class TemporalEnrichment(Enrichment):
    """Joins orders with the history by the shared SQL; modes `temporal` and `transaction`."""

    orders_told_by = ORDERS
    wanted = frozenset({ORDERS, *DIMENSION_TABLES})

    def __init__(self, spark: "SparkSession", history: History) -> None:
        self._spark = spark.newSession()  # the shared SQL's relations are views of a session
        self._history = history

    def learn(self, transactions: Sequence[Transaction], resume_offset: int) -> None:
        self._history.learn(transactions, resume_offset)

    def learn_large(self, large: LargeTransaction) -> None:
        self._history.learn_large(large)

    def maintain(self) -> None:
        self._history.maintain()

    def enriched(self, changes: Sequence[OrderChange]) -> dict[str, pa.Array]:
        names = ("order_time", "client_name", "table_name", "pizzas")
        alive = [change for change in changes if change.row is not None]
        if not alive:
            return {name: pa.nulls(len(changes), SCHEMA.field(name).type) for name in names}
        relations = {name: self._bound(table) for name, table in self._relations(alive).items()}
        rows = enrich_orders(self._spark, relations).toArrow()
        keys = zip(rows["order_id"].to_pylist(), rows["valid_from"].to_pylist(), strict=True)
        places = {key: place for place, key in enumerate(keys)}
        taken = pa.array([places.get((c.order_id, c.commit_lsn)) for c in changes], pa.int64())
        return {
            name: rows[name].combine_chunks().take(taken).cast(SCHEMA.field(name).type)
            for name in names
        }

    def _relations(self, changes: Sequence[OrderChange]) -> dict[str, pa.Table]:
        """The orders, and of the dimensions the versions of the rows that they refer to."""
        assignments = self._of(TABLE_ASSIGNMENT, {c.row.table_assignment_id for c in changes})
        pizzas = {pizza for c in changes for pizza in c.row.pizzas if pizza is not None}
        return {
            ORDERS: _orders_relation(changes),
            TABLE_ASSIGNMENT: assignments,
            CLIENTS: self._of(CLIENTS, set(assignments["client_id"].to_pylist())),
            TABLES: self._of(TABLES, set(assignments["table_id"].to_pylist())),
            PIZZAS: self._of(PIZZAS, pizzas),
        }

    def _of(self, dimension: str, ids: set[int]) -> pa.Table:
        return self._history.relation(self._spark, dimension, ids)

    def _bound(self, table: pa.Table) -> "DataFrame":
        """One partition, joined by hash: a few rows are not worth an exchange each."""
        return self._spark.createDataFrame(table).coalesce(1).hint("shuffle_hash")


def _orders_relation(changes: Sequence[OrderChange]) -> pa.Table:
    return pa.table(
        [
            [c.order_id for c in changes],
            [c.row.table_assignment_id for c in changes],
            [c.row.order_time for c in changes],
            [c.row.pizzas for c in changes],
            [c.commit_lsn for c in changes],
            [FOREVER] * len(changes),
        ],
        schema=ORDERS_RELATION,
    )


class HistorySink(Sink):
    """The `history` query: the dimensions' history alone."""

    wanted = frozenset(DIMENSION_TABLES)

    def __init__(self, settings: Settings) -> None:
        self._log = history_log(settings)
        self._history = History(settings, self._log, self._log.reached.frontier)

    @property
    def reached(self) -> Reached:
        return self._log.reached

    def write(
        self, transactions: Sequence[Transaction], frontier: int, resume_offset: int, seen_us: int
    ) -> pa.Table:
        self._history.learn(transactions, resume_offset)
        self._log.append(history_rows([]), frontier, resume_offset)
        faults.reach("after_dimensions")
        return SCHEMA.empty_table()

    def write_large(self, large: LargeTransaction, resume_offset: int, seen_us: int) -> int:
        self._history.learn_large(large)
        self._log.append(history_rows([]), large.transaction.commit_lsn, resume_offset)
        return 0

    def maintain(self) -> bool:
        return self._log.maintain()
