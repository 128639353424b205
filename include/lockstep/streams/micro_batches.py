"""A stream's own query of Spark Structured Streaming: its records come in micro-batches.

A micro-batch, step by step:

1. read: offset and value of its records come to the driver (bounded by maxOffsetsPerTrigger);
2. on the first one after a start, what lies between the table's resume offset and it is read again
   (if a stage holds records back, also the micro-batch itself: what comes twice does no harm);
3. decode and follow: the tracker releases the transactions that are whole now;
4. write: the sink commits them with the frontier; only this commit counts.

A micro-batch that Spark runs again is recognised by its offsets and changes nothing.
"""

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from lockstep.cdc.transactions import IncompleteTransaction
from lockstep.errors import StreamError
from lockstep.faults import Point, in_mode, reach
from lockstep.settings import Settings
from lockstep.sources import change_topic
from lockstep.streams.follower import Follower
from lockstep.streams.runner import Position, Runner

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

RECORDS_MAX = 50_000
"""Records of one micro-batch: some 50 MB in the driver. Larger ones are no quicker."""
SHARE_SECONDS = 0.12
"""So long a query pauses for each neighbour, whose joins need the cores as well."""


class Stage(NamedTuple):
    """What the records (offset, value) go through in Spark before they come to the driver.

    unpacked: makes them offset and value again of what comes out.
    """

    through: Callable[["DataFrame"], "DataFrame"]
    unpacked: Callable[[pa.Table], pa.Table]


class MicroBatches(Runner):
    """One streaming query and its sink."""

    def __init__(
        self,
        settings: Settings,
        follower: Follower,
        spark: "SparkSession",
        checkpoint_location: "Path",
        stage: Stage | None = None,
    ) -> None:
        """follower: of records that are held back, if there is a stage.

        stage: None when the records come to the driver as they are.
        """
        super().__init__(follower.writer)
        self._settings, self._follower, self._sink = settings, follower, follower.writer.sink
        self._spark, self._checkpoint_location, self._stage = spark, checkpoint_location, stage
        self._at_work = threading.Lock()
        self._stopping = False
        self._is_first = True
        self._query: StreamingQuery | None = None

    def start(self, neighbours: int = 0) -> None:
        """Start the query; it goes on where its checkpoint location says."""
        self.neighbours = neighbours
        pause_seconds = max(self._sink.pause_seconds, neighbours * SHARE_SECONDS)
        records = change_topic.stream(
            self._spark,
            self._settings,
            first_offset=self._sink.reached.resume_offset,
            records_max=RECORDS_MAX,
            topic=self._follower.topic,
        )
        self._query = (
            (records if self._stage is None else self._stage.through(records))
            .writeStream.queryName(self.name)
            .option("checkpointLocation", str(self._checkpoint_location))
            .trigger(processingTime=f"{round(pause_seconds * 1000)} milliseconds")
            .foreachBatch(self._micro_batch)
            .start()
        )

    def stop(self) -> None:
        self._stopping = True
        with self._at_work:
            pass  # one that begins from now on ends at once: it must find the lock free
        if self._query is not None:
            self._query.stop()

    @property
    def position(self) -> Position:
        return self._follower.feed.position

    @property
    def state_rows(self) -> int:
        """Changes of transactions that are not whole, in memory and in Spark's store, and what the
        sink caches.
        """
        held = self._follower.tracker.held_changes
        return held + self._stored_rows() + self._sink.cached_rows

    def _stored_rows(self) -> int:
        progress = None if self._query is None or self._stage is None else self._query.lastProgress
        return sum(one.numRowsTotal for one in progress.stateOperators) if progress else 0

    def incomplete(self) -> list[IncompleteTransaction]:
        return self._follower.feed.incomplete()

    def failure(self) -> BaseException | None:
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
                reach(Point.BEFORE_NEXT_RECORDS)
            except BaseException as error:
                self.error = error
                raise
            self.progress.write_seconds = time.monotonic() - started
            self.progress.note()

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
                self._settings, self._follower.tracker.next_offset, end, self._follower.topic
            )
            for stretch in again:
                self._follower.follow(stretch)
            self._is_first = False
        self._follower.follow(list(zip(offsets, records["value"].to_pylist(), strict=True)))
