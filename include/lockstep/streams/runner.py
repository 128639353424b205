"""One stream: records in, whole transactions, one commit. The protocol is the same for every sink.

A micro-batch, step by step:

1. read: offset and value of its records come to the driver (bounded by maxOffsetsPerTrigger);
2. on the first one after a start, what lies between the table's resume offset and it is read again
   (if a stage holds records back, also the micro-batch itself: what comes twice does no harm);
3. decode and follow: the tracker releases the transactions that are whole now;
4. write: the sink commits them with the frontier; only this commit counts.

A record that cannot be read, and is not given up, stops the stream after what precedes it has been
committed. A micro-batch that Spark runs again is recognised by its offsets and changes nothing.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from lockstep.cdc.errors import PoisonedRecordError
from lockstep.cdc.records import Record
from lockstep.cdc.transactions import IncompleteTransaction, Transaction, TransactionTracker
from lockstep.errors import StreamError
from lockstep.faults import Point, in_mode, reach
from lockstep.observe.latency import LatencyWindow
from lockstep.settings import Settings
from lockstep.sinks.append_log import Reached
from lockstep.sources import change_topic
from lockstep.streams.given_up import GivenUp
from lockstep.streams.large import LargeTransaction
from lockstep.streams.sink import Sink

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

RECORDS_MAX = 50_000
"""Records of one micro-batch: some 50 MB in the driver. Larger ones are no quicker."""
LOOK_SECONDS_MAX = 0.2
"""A look from outside waits so long for a micro-batch: most are shorter."""
QUIET_COMMIT_SECONDS = 5.0
"""A frontier that moves without orders is committed this often."""
RELEASED_TOGETHER_MAX = 20_000
"""Changes of transactions that are written in one commit, unless one alone has more."""
SHARE_SECONDS = 0.25
"""A micro-batch of one mode takes that much of two cores; five without pauses only queue up."""

Records = Sequence[tuple[int, bytes | None]]


class Stage(NamedTuple):
    """What the records (offset, value) go through in Spark before they come to the driver.

    unpacked: makes them offset and value again of what comes out.
    """

    through: Callable[["DataFrame"], "DataFrame"]
    unpacked: Callable[[pa.Table], pa.Table]


@dataclass
class Progress:
    """What a runner knows of itself, for the heartbeat."""

    rows_total: int = 0
    last_progress_at: datetime | None = None
    micro_batch_seconds: float | None = None


class Runner:
    """One streaming query and its sink. Made, started and stopped by the driver's main thread."""

    def __init__(
        self,
        settings: Settings,
        name: str,
        sink: Sink,
        *,
        xid_near: int,
        given_up: GivenUp,
        stage: Stage | None = None,
    ) -> None:
        """given_up: decodes the records, and says which topic they are of.
        stage: None when the records come to the driver as they are.
        """
        self.name = name
        self.progress = Progress()
        self.latency = LatencyWindow()
        self.error: BaseException | None = None
        self.tracker = TransactionTracker(
            wanted=sink.wanted,
            frontier=sink.reached.frontier,
            next_offset=sink.reached.resume_offset,
            xid_near=xid_near,
            held_back=stage is not None,
        )
        self._settings = settings
        self._sink = sink
        self._given_up = given_up
        self._stage = stage
        self._at_work = threading.Lock()
        self._incomplete: list[IncompleteTransaction] = []
        self._stopping = False
        self._is_first = True
        self._committed_at = time.monotonic()
        self._query: StreamingQuery | None = None
        self.neighbours = 0

    def start(
        self, spark: "SparkSession", checkpoint_location: "Path", neighbours: int = 0
    ) -> None:
        """Start the query; it goes on where the checkpoint location says.

        neighbours: other modes of the same driver, to which it leaves their share of the cores.
        """
        self.neighbours = neighbours
        pause_seconds = max(self._sink.pause_seconds, neighbours * SHARE_SECONDS)
        records = change_topic.stream(
            spark,
            self._settings,
            first_offset=self._sink.reached.resume_offset,
            records_max=RECORDS_MAX,
            topic=self._given_up.topic,
        )
        self._query = (
            (records if self._stage is None else self._stage.through(records))
            .writeStream.queryName(self.name)
            .option("checkpointLocation", str(checkpoint_location))
            .trigger(processingTime=f"{round(pause_seconds * 1000)} milliseconds")
            .foreachBatch(self._micro_batch)
            .start()
        )

    def stop(self) -> None:
        """End the query after the micro-batch under way, and wait for it."""
        self._stopping = True
        with self._at_work:
            pass  # one that begins from now on ends at once: it must find the lock free
        if self._query is not None:
            self._query.stop()

    @property
    def reached(self) -> Reached:
        """How far the sink's table goes."""
        return self._sink.reached

    @property
    def state_rows(self) -> int:
        """What the mode keeps outside its tables; any thread may ask.

        Changes of transactions that are not whole, in memory and in Spark's store, and what the
        sink caches.
        """
        return self.tracker.held_changes + self._stored_rows() + self._sink.cached_rows

    def _stored_rows(self) -> int:
        progress = None if self._query is None or self._stage is None else self._query.lastProgress
        return sum(one.numRowsTotal for one in progress.stateOperators) if progress else 0

    def incomplete(self) -> list[IncompleteTransaction]:
        """Transactions that ended, and of which changes are missing.

        Does not wait for a long micro-batch, so that the heartbeat does not: then those of before.
        """
        if self._at_work.acquire(timeout=LOOK_SECONDS_MAX):
            try:
                self._incomplete = self.tracker.incomplete()
            finally:
                self._at_work.release()
        return self._incomplete

    def failure(self) -> BaseException | None:
        """Why the query ended by itself; None while it runs."""
        if self._query is None or self._query.isActive:
            return None
        return self.error or self._query.exception() or RuntimeError(f"{self.name} just ended")

    def _micro_batch(self, records: "DataFrame", _number: int) -> None:
        with self._at_work:
            if self._stopping:
                # Not merely returned: this micro-batch must not count as done.
                raise StreamError(f"{self.name} is being stopped")
            in_mode(self.name)
            started = time.monotonic()
            try:
                self._take(self._collected(records).sort_by("offset"))
                self._sink.maintain()
                reach(Point.BEFORE_SPARK_COMMIT)
            except BaseException as error:
                self.error = error
                raise
            self.progress.micro_batch_seconds = time.monotonic() - started
            self._note_progress()

    def _note_progress(self) -> None:
        self.progress.last_progress_at = datetime.now(UTC)

    def _note_slice(self) -> None:
        """A slice of a large transaction is done with; the thread may be one of delta-rs."""
        self._note_progress()
        reach(Point.WITHIN_LARGE, self.name)

    def _collected(self, records: "DataFrame") -> pa.Table:
        collected = records.toArrow()
        return collected if self._stage is None else self._stage.unpacked(collected)

    def _take(self, records: pa.Table) -> None:
        """Steps 2 to 4 for the records of one micro-batch."""
        if not records.num_rows:
            return
        offsets = records["offset"].to_pylist()
        if self._is_first:
            end = offsets[0] if self._stage is None else offsets[-1] + 1
            again = change_topic.read_again(
                self._settings, self.tracker.next_offset, end, self._given_up.topic
            )
            for stretch in again:
                self.follow(stretch)
            self._is_first = False
        self.follow(list(zip(offsets, records["value"].to_pylist(), strict=True)))

    def follow(self, records: Records) -> None:
        """Steps 3 and 4 for records in the order of their offsets, whoever has read them."""
        seen_us = time.time_ns() // 1000
        decoded = _Decoded(self._readable(records))
        released = self.tracker.feed(decoded)
        self._write(released, seen_us)
        if decoded.poison is not None:
            raise decoded.poison

    def _readable(self, records: Records) -> Iterator[Record]:
        """Decode what is new; of a table that is not wanted, or not known, a change counts."""
        for offset, value in records:
            if self._stage is None and offset < self.tracker.next_offset:
                continue
            yield self._given_up.decoded(value, offset, self._sink.wanted)

    def _write(self, released: Sequence[Transaction], seen_us: int) -> None:
        """Step 4, in one commit for what fits into memory, and one for each that does not."""
        together: list[Transaction] = []
        held = resume_offset = 0
        for transaction, resume_after in zip(
            released, self.tracker.resume_offsets(released), strict=True
        ):
            if transaction.changes is None:
                self._commit(together, resume_offset, seen_us)
                self._commit_large(transaction, resume_after, seen_us)
                together, held = [], 0
                continue
            together.append(transaction)
            resume_offset = resume_after
            held += len(transaction.changes)
            if held > RELEASED_TOGETHER_MAX:
                self._commit(together, resume_offset, seen_us)
                together, held = [], 0
        self._commit(together, resume_offset, seen_us)

    def _commit(
        self, transactions: Sequence[Transaction], resume_offset: int, seen_us: int
    ) -> None:
        """resume_offset: where reading goes on once the last of the transactions is written."""
        if not transactions:
            return
        quiet = not any(transaction.changes for transaction in transactions)
        if quiet and time.monotonic() - self._committed_at < QUIET_COMMIT_SECONDS:
            return
        rows = self._sink.write(transactions, transactions[-1].commit_lsn, resume_offset, seen_us)
        self._committed_at = time.monotonic()
        self.progress.rows_total += rows.num_rows
        if rows.num_rows:
            self.latency.add(rows, datetime.now(UTC))

    def _commit_large(self, transaction: Transaction, resume_offset: int, seen_us: int) -> None:
        large = LargeTransaction(self._settings, transaction, self._given_up, self._note_slice)
        self.progress.rows_total += self._sink.write_large(large, resume_offset, seen_us)
        self._committed_at = time.monotonic()


class _Decoded(Iterable[Record]):
    """The records up to the first that cannot be read, which is kept for later."""

    def __init__(self, records: Iterator[Record]) -> None:
        self._records = records
        self.poison: PoisonedRecordError | None = None

    def __iter__(self) -> Iterator[Record]:
        try:
            yield from self._records
        except PoisonedRecordError as error:
            self.poison = error
