"""A stream's own query of Spark Structured Streaming: its records come in micro-batches.

A start, step by step:

1. the query starts at the change topic's end, with a checkpoint of its own, which nothing of an
   earlier start needs: the table alone says what it holds;
2. what lies between the table's resume offset and that end is read by a consumer, and written:
   Spark would take twice as long for a backlog (docs/decisions/streams.md);
3. the first micro-batch waits for the end of that.

A micro-batch, step by step:

1. read: offset and value of its records come to the driver (bounded by maxOffsetsPerTrigger);
2. decode and follow: the tracker releases the transactions that are whole now;
3. write: the sink commits them with the frontier; only this commit counts.
"""

import threading
import time
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

import pyarrow as pa

from lockstep.cdc.transactions import IncompleteTransaction
from lockstep.errors import LockstepError, StreamError
from lockstep.faults import Point, in_mode, reach
from lockstep.settings import Settings
from lockstep.sources import change_topic
from lockstep.streams.follower import Follower, Records
from lockstep.streams.runner import Position, Runner

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

RECORDS_MAX = 50_000
"""Records of one micro-batch: some 50 MB in the driver. Larger ones are no quicker."""
SHARE_SECONDS = 0.08
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
        """follower: of records that are held back, if there is a stage. checkpoint_location: a
        folder for this stream alone.

        stage: None when the records come to the driver as they are.
        """
        super().__init__(follower.writer)
        self._settings, self._follower, self._sink = settings, follower, follower.writer.sink
        self._spark, self._checkpoint_location, self._stage = spark, checkpoint_location, stage
        self._at_work = threading.Lock()
        self._stopping = False
        self._caught_up = threading.Event()
        self._caught_up.set()
        self._query: StreamingQuery | None = None

    def start(self, neighbours: int = 0) -> None:
        """Start the query at the topic's end, and read up to there. Raises StreamError."""
        self.neighbours = neighbours
        topic = self._follower.topic
        end = max(self._sink.reached.resume_offset, change_topic.end_offset(self._settings, topic))
        self._caught_up.clear()
        self._start_query(end, topic)
        threading.Thread(
            target=self._catch_up, args=(end,), name=f"{self.name} catching up", daemon=True
        ).start()

    def _start_query(self, first_offset: int, topic: str) -> None:
        pause_seconds = max(self._sink.pause_seconds, self.neighbours * SHARE_SECONDS)
        records = change_topic.stream(
            self._spark,
            self._settings,
            first_offset=first_offset,
            records_max=RECORDS_MAX,
            topic=topic,
        )
        self._query = (
            (records if self._stage is None else self._stage.through(records))
            .writeStream.queryName(self.name)
            .option("checkpointLocation", str(self._new_checkpoint()))
            .trigger(processingTime=f"{round(pause_seconds * 1000)} milliseconds")
            .foreachBatch(self._micro_batch)
            .start()
        )

    def _new_checkpoint(self) -> "Path":
        """A folder that no query has had: Spark goes on using that of one that has ended."""
        return self._checkpoint_location / uuid4().hex

    def stop(self) -> None:
        self._stopping = True
        self._caught_up.wait()
        with self._at_work:
            pass  # one that begins from now on ends at once: it must find the lock free
        try:
            if self._query is not None:
                self._query.stop()
        finally:
            self._upkeep.end()

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
        if self._query is None or (self.error is None and self._query.isActive):
            return None
        return self.error or self._query.exception() or RuntimeError(f"{self.name} just ended")

    def _catch_up(self, end: int) -> None:
        """Write what the topic has before this offset, after the table's; until it is to stop."""
        in_mode(self.name)
        first = self._follower.tracker.next_offset
        try:
            for records in change_topic.read_again(
                self._settings, first, end, self._follower.topic
            ):
                if self._stopping:
                    return
                self._take(records)
        except BaseException as error:  # whatever it is, the micro-batches wait for this thread
            if not isinstance(error, LockstepError):
                traceback.print_exception(error)  # a defect, or Spark's: the log shows where
            self.error = error
        finally:
            self._caught_up.set()

    def _micro_batch(self, records: "DataFrame", _number: int) -> None:
        with self._at_work:
            self._require_going_on()
            in_mode(self.name)
            try:
                collected = self._collected(records)
                self._caught_up.wait()
                self._require_going_on()
                self._take(collected)
            except BaseException as error:
                self.error = self.error or error
                raise

    def _require_going_on(self) -> None:
        """Raises StreamError: a micro-batch that just ended would count as done."""
        if self._stopping or self.error is not None:
            raise StreamError(f"{self.name} is being stopped")

    def _collected(self, records: "DataFrame") -> Records:
        """In the order of their offsets."""
        collected = records.toArrow()
        if self._stage is not None:
            collected = self._stage.unpacked(collected)
        in_order = collected.sort_by("offset")
        offsets, values = (in_order[name].to_pylist() for name in ("offset", "value"))
        return list(zip(offsets, values, strict=True))

    def _take(self, records: Records) -> None:
        """Write what is whole with these records."""
        started = time.monotonic()
        self._follower.follow(records)
        self._upkeep.look_after()
        reach(Point.BEFORE_NEXT_RECORDS)
        self.progress.write_seconds = time.monotonic() - started
        self.progress.note()
