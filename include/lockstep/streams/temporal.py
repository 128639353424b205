"""Mode `temporal`: each order joined with the rows of the dimensions valid at its own commit.

The state is the dimensions' history in Delta, written before the orders that may need it, and a
cache of it in the driver. The join is the hourly run's own SQL. The `history` query is the same
without the orders.
"""

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from lockstep.cdc.order_records import OrderRow
from lockstep.cdc.transactions import Transaction, TransactionTracker
from lockstep.enrich.few_rows import FewRows
from lockstep.enrich.orders import enrich_orders
from lockstep.errors import StreamError
from lockstep.faults import Point, reach
from lockstep.model.modes import HISTORY, StreamMode
from lockstep.pizzeria import (
    CHANGE_TOPIC,
    CLIENTS,
    DIMENSION_TABLES,
    ORDERS,
    PIZZAS,
    TABLE_ASSIGNMENT,
    TABLES,
)
from lockstep.settings import Settings
from lockstep.sinks.append_log import AppendLog, Reached
from lockstep.sources import change_topic
from lockstep.streams.dimensions import (
    FOREVER,
    DimensionCache,
    Version,
    history_log,
    history_rows,
    load_cache,
    relation,
    stored_history,
    stored_living,
    stored_relation,
    versions_of,
)
from lockstep.streams.fold import OrderChange
from lockstep.streams.given_up import GivenUp
from lockstep.streams.large import LargeTransaction
from lockstep.streams.ops import CREATED
from lockstep.streams.rows import SCHEMA
from lockstep.streams.sink import Enrichment, Sink
from lockstep.supervise.heartbeat import read_heartbeat

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDERS_RELATION = pa.schema(
    [
        ("id", pa.int64()),
        ("table_assignment_id", pa.int64()),
        ("order_time", pa.timestamp("us", "UTC")),
        ("pizzas", pa.list_(pa.int64())),
        ("valid_from", pa.int64()),
        ("valid_to", pa.int64()),
        ("origin", pa.null()),
    ]
)

FRONTIER_SECONDS_MAX = 5.0
"""The history's frontier moves this often also while no dimension changes: comparisons wait for it,
and so do modes that read the history."""
STORED_SECONDS_MAX = 120.0
"""A mode that does not write the history waits this long for the query that does to get on."""
STORED_PAUSE_SECONDS = 0.2


def _nothing() -> None:
    """For whom nobody watches."""


class History:
    """The dimensions as the change topic tells them: kept in memory, and in Delta if `log`."""

    def __init__(self, settings: Settings, log: AppendLog | None, frontier: int | None) -> None:
        """frontier: of the orders' change log; older versions are not needed in memory."""
        self._settings = settings
        self._log = log
        self._settled = -1 if frontier is None else frontier
        self._written_at = 0.0
        self._stored = -1
        self.cached: DimensionCache
        self.cached, self._loaded = load_cache(settings, frontier)

    def learn(self, transactions: Sequence[Transaction], resume_offset: int) -> None:
        """Take in the transactions' changes of dimensions; durable when this returns.

        The history's frontier moves with its rows, and every FRONTIER_SECONDS_MAX without any; what
        it has already is not written.
        """
        versions = []
        for transaction in transactions:
            living = partial(self._living, transaction, versions)
            found = versions_of(transaction, transaction.changes or (), living)
            for version in found:
                self.cached.take(version, self._settled)
            versions += found
        self._settled = transactions[-1].commit_lsn
        if self._log is None:
            return
        new = [version for version in versions if self._is_new(version)]
        is_ahead = self._is_new(transactions[-1])
        is_due = time.monotonic() - self._written_at >= FRONTIER_SECONDS_MAX
        if new or (is_ahead and is_due):
            self._log.append(history_rows(new), self._settled, resume_offset)
            self._written_at = time.monotonic()

    def learn_large(self, large: LargeTransaction, resume_offset: int) -> None:
        """The same, slice by slice: rows first, the frontier with the next transaction.

        Each row once: two versions of it by one transaction could not be told apart later.
        """
        is_written = self._log is not None and self._is_new(large.transaction)
        last = large.last_changes(DIMENSION_TABLES)
        living = partial(self._living, large.transaction, ())
        for changes in last.slices:
            versions = versions_of(large.transaction, changes, living, last.rows, last.created)
            for version in versions:
                self.cached.take(version, self._settled)
            if is_written:
                self._log.add(history_rows(versions))
                reach(Point.AFTER_DIMENSIONS_SLICE)
        self._settled = large.transaction.commit_lsn
        if is_written:
            self._log.append(history_rows([]), large.transaction.commit_lsn, resume_offset)

    def _living(
        self, transaction: Transaction, learned: Sequence[Version], dimension: str
    ) -> set[int]:
        """Ids of the dimension's rows before the transaction, in a set of the caller's.

        learned: versions of which Delta does not have the newest yet. Of a dimension beyond the
        cache only the rows are known that this history writes: for others it has nothing to forget.
        """
        if self.cached.holds(dimension):
            return self.cached.living(dimension)
        if self._log is None or not self._is_new(transaction):
            return set()
        living = stored_living(self._settings, dimension)
        for version in learned:
            if version.dimension == dimension and self._is_new(version):
                (living.discard if version.values is None else living.add)(version.id)
        return living

    def _is_new(self, one: Transaction | Version) -> bool:
        """Whether Delta does not have the transaction, or its version of a row, yet."""
        reached = self._log.reached.frontier
        return reached is None or one.commit_lsn > reached

    def maintain(self) -> None:
        if self._log is not None:
            self._log.maintain()

    def relation(self, spark: "SparkSession", dimension: str, ids: set[int]) -> pa.Table:
        """The rows' versions, out of memory or, of a dimension that is too large, out of Delta."""
        if self.cached.holds(dimension):
            return self.cached.relation(dimension, ids)
        self.wait_until_stored()
        return stored_relation(spark, self._settings, dimension, ids)

    def catch_up(self, frontier: int, given_up: GivenUp) -> None:
        """Take in what the topic tells of the dimensions up to a frontier that was not loaded.

        Raises StreamError when the topic does not reach that frontier.
        """
        loaded = self._loaded
        if loaded.frontier is not None and loaded.frontier >= frontier:
            return
        tracker = TransactionTracker(
            wanted=DIMENSION_TABLES,
            frontier=loaded.frontier,
            next_offset=loaded.resume_offset,
            xid_near=0,
        )
        end = change_topic.end_offset(self._settings)
        for records in change_topic.read_again(self._settings, loaded.resume_offset, end):
            decoded = (
                given_up.decoded(value, offset, DIMENSION_TABLES) for offset, value in records
            )
            released = tracker.feed(decoded)
            resume_offsets = tracker.resume_offsets(released)
            for transaction, resume_offset in zip(released, resume_offsets, strict=True):
                if transaction.commit_lsn > frontier:
                    return  # the stream's own: to learn it forgets what orders before it need
                if transaction.changes is None:
                    large = LargeTransaction(self._settings, transaction, given_up, _nothing)
                    self.learn_large(large, resume_offset)
                else:
                    self.learn([transaction], resume_offset)
            if tracker.frontier is not None and tracker.frontier >= frontier:
                return
        raise StreamError(
            f"{CHANGE_TOPIC} ends before LSN {frontier}, which this stream has reached already: "
            "it is another topic, or records were removed; see `lockstep stream rebuild`"
        )

    def wait_until_stored(self, progressed: Callable[[], None] = _nothing) -> None:
        """Until Delta has all that was learned here, if it is needed and another query writes it.

        progressed: called whenever that query has got on. Raises StreamError when it does not.
        """
        if self._log is not None or all(map(self.cached.holds, DIMENSION_TABLES)):
            return
        moved_at, since = None, time.monotonic()
        while not self._is_stored():
            if (found := _history_moved_at(self._settings)) != moved_at:
                moved_at, since = found, time.monotonic()
                progressed()
            if time.monotonic() - since > STORED_SECONDS_MAX:
                raise StreamError(
                    f"the dimensions' history is at LSN {self._stored}, of {self._settled}, and "
                    f"does not get on for {STORED_SECONDS_MAX:.0f} s; does `temporal` or "
                    "`history` run? See `lockstep stream status`"
                )
            time.sleep(STORED_PAUSE_SECONDS)

    def _is_stored(self) -> bool:
        """Whether Delta has all that was learned here; asked only until it has."""
        if self._stored < self._settled:
            frontier = stored_history(self._settings).frontier
            self._stored = -1 if frontier is None else frontier
        return self._stored >= self._settled


def _history_moved_at(settings: Settings) -> datetime | None:
    """When one of the two queries that may write the history last said that it got on."""
    beats = (read_heartbeat(settings, mode) for mode in (StreamMode.TEMPORAL, HISTORY))
    times = [beat.last_progress_at for beat in beats if beat is not None and beat.last_progress_at]
    return max(times, default=None)


class TemporalEnrichment(Enrichment):
    """Joins orders with the history by the shared SQL; modes `temporal` and `transaction`."""

    orders_told_by = ORDERS
    wanted = frozenset({ORDERS, *DIMENSION_TABLES})

    def __init__(self, spark: "SparkSession", history: History) -> None:
        self._few = FewRows(spark)
        self._history = history
        # A JVM's first join takes seconds: not the first order's. It needs no history, for which a
        # query may have to be awaited that the driver starts later.
        nobody = {name: relation(name, ()) for name in DIMENSION_TABLES}
        self._joined({ORDERS: _orders_relation([_NOBODYS_ORDER]), **nobody})

    @property
    def cached_rows(self) -> int:
        return self._history.cached.version_count

    def learn(self, transactions: Sequence[Transaction], resume_offset: int) -> None:
        self._history.learn(transactions, resume_offset)

    def learn_large(self, large: LargeTransaction, resume_offset: int) -> None:
        self._history.learn_large(large, resume_offset)
        # Not later: while delta-rs takes the rows of a commit it cannot be asked anything.
        self._history.wait_until_stored(large.progressed)

    def maintain(self) -> None:
        self._history.maintain()

    def enriched(self, changes: Sequence[OrderChange]) -> dict[str, pa.Array]:
        names = ("order_time", "client_name", "table_name", "pizzas")
        alive = [change for change in changes if change.row is not None]
        if not alive:
            return {name: pa.nulls(len(changes), SCHEMA.field(name).type) for name in names}
        rows = self._joined(self._relations(alive))
        keys = zip(rows["order_id"].to_pylist(), rows["valid_from"].to_pylist(), strict=True)
        places = {key: place for place, key in enumerate(keys)}
        taken = pa.array([places.get((c.order_id, c.commit_lsn)) for c in changes], pa.int64())
        return {
            name: rows[name].combine_chunks().take(taken).cast(SCHEMA.field(name).type)
            for name in names
        }

    def _joined(self, relations: dict[str, pa.Table]) -> pa.Table:
        """The shared SQL over these relations."""
        self._few.expect(relations[ORDERS].num_rows)
        bound = {name: self._few.frame(name, table) for name, table in relations.items()}
        return enrich_orders(self._few.session, bound).toArrow()

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
        return self._history.relation(self._few.session, dimension, ids)


_NOBODYS_ORDER = OrderChange(
    order_id=0,
    op=CREATED,
    row=OrderRow(0, 0, datetime.fromtimestamp(0, UTC), [0]),
    tx_id=None,
    commit_lsn=0,
    committed_us=0,
    captured_us=0,
)


def _orders_relation(changes: Sequence[OrderChange]) -> pa.Table:
    return pa.table(
        [
            [c.order_id for c in changes],
            [c.row.table_assignment_id for c in changes],
            [c.row.order_time for c in changes],
            [c.row.pizzas for c in changes],
            [c.commit_lsn for c in changes],
            [FOREVER] * len(changes),
            [None] * len(changes),
        ],
        schema=ORDERS_RELATION,
    )


class HistorySink(Sink):
    """The `history` query: the dimensions' history alone."""

    wanted = frozenset(DIMENSION_TABLES)
    # Without a pause it would take a core; only `transaction` waits for it, and only for rows of a
    # dimension beyond the cache.
    pause_seconds = 5.0

    def __init__(self, settings: Settings) -> None:
        self._log = history_log(settings)
        self._history = History(settings, self._log, self._log.reached.frontier)

    @property
    def reached(self) -> Reached:
        return self._log.reached

    @property
    def cached_rows(self) -> int:
        return self._history.cached.version_count

    def write(
        self, transactions: Sequence[Transaction], frontier: int, resume_offset: int, seen_us: int
    ) -> pa.Table:
        reach(Point.BEFORE_DIMENSIONS)
        self._history.learn(transactions, resume_offset)
        self._log.append(history_rows([]), frontier, resume_offset)
        reach(Point.AFTER_DIMENSIONS)
        return SCHEMA.empty_table()

    def write_large(self, large: LargeTransaction, resume_offset: int, seen_us: int) -> int:
        reach(Point.BEFORE_DIMENSIONS)
        self._history.learn_large(large, resume_offset)
        self._log.append(history_rows([]), large.transaction.commit_lsn, resume_offset)
        reach(Point.AFTER_DIMENSIONS)
        return 0

    def maintain(self) -> bool:
        return self._log.maintain()
