"""Watches what Flink writes from a process of its own: when could each row be read?

It knows nothing of the job. A row of Paimon can be read when its snapshot's file is there, one of
Kafka when a consumer of committed records has it. Nothing heavy is imported, for the process starts
again.
"""

import multiprocessing
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

from lockstep_tools.bench.peer.paimon import FIRST_SNAPSHOT, rows_of_snapshot, snapshot_file
from lockstep_tools.errors import MeasurementError

PAUSE_SECONDS = 0.002
"""Between two looks at a table, as for Lockstep's (version_watch.py)."""
ASK_SECONDS = 0.2
ANSWER_SECONDS_MAX = 30.0
FETCH_WAIT_MS = 10
"""The broker answers a fetch so soon when it has nothing."""
POLL_SECONDS = 0.05


@dataclass
class Seen:
    """moments_ns: of each snapshot or record, in nanoseconds since the epoch, in order.

    totals: the table's rows in each snapshot. values: each record's. One of the two stays empty.
    """

    moments_ns: list[int] = field(default_factory=list)
    totals: list[int] = field(default_factory=list)
    values: list[bytes] = field(default_factory=list)

    @property
    def rows(self) -> int:
        return self.totals[-1] if self.totals else len(self.values)


class SinkWatch:
    """Stamps all that is written from the start of the block on."""

    def __init__(self, look: Callable[..., None], *arguments: object) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=look, args=(*arguments, theirs), daemon=True)

    @classmethod
    def of_paimon(cls, table: Path) -> "SinkWatch":
        """table: its folder, which need not exist yet."""
        return cls(_watch_snapshots, table)

    @classmethod
    def of_topic(cls, login: Mapping[str, str], topic: str) -> "SinkWatch":
        """login: in librdkafka's names. The topic exists, with one partition."""
        return cls(_watch_topic, dict(login), topic)

    def __enter__(self) -> "SinkWatch":
        self._process.start()
        try:
            self._receive()  # it watches now
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()

    def wait_for(self, rows: int, seconds_max: float, is_alive: Callable[[], bool]) -> None:
        """Wait until so many rows could be read.

        Raises MeasurementError after seconds_max, or once what writes them is not alive.
        """
        deadline = time.monotonic() + seconds_max
        while (found := self._ask("rows")) < rows:
            if not is_alive():
                raise MeasurementError(f"Flink's job ended after {found:,} of {rows:,} rows")
            if time.monotonic() > deadline:
                raise MeasurementError(
                    f"Flink wrote {found:,} of {rows:,} rows in {seconds_max:.0f} s"
                )
            time.sleep(ASK_SECONDS)

    def seen(self) -> Seen:
        """End the watch and give what it saw."""
        return self._ask("end")

    def _ask(self, question: str) -> object:
        try:
            self._pipe.send(question)
        except OSError as error:
            raise MeasurementError("the process that watches Flink's sink has ended") from error
        return self._receive()

    def _receive(self) -> object:
        try:
            if self._pipe.poll(ANSWER_SECONDS_MAX):
                return self._pipe.recv()
        except EOFError as error:
            raise MeasurementError("the process that watches Flink's sink has ended") from error
        raise MeasurementError("the process that watches Flink's sink does not answer")


def _is_over(pipe: Connection, seen: Seen) -> bool:
    """Answer what was asked, if anything was; true after the last answer."""
    if not pipe.poll():
        return False
    if pipe.recv() == "end":
        pipe.send(seen)
        return True
    pipe.send(seen.rows)
    return False


def _watch_snapshots(table: Path, pipe: Connection) -> None:
    seen, number = Seen(), FIRST_SNAPSHOT
    pipe.send("watching")
    while not _is_over(pipe, seen):
        while (file := snapshot_file(table, number)).exists():
            seen.moments_ns.append(time.time_ns())
            seen.totals.append(rows_of_snapshot(file.read_text(encoding="utf-8")))
            number += 1
        time.sleep(PAUSE_SECONDS)


def _watch_topic(login: Mapping[str, str], topic: str, pipe: Connection) -> None:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer(
        {
            **login,
            "group.id": "bench-flink",  # the client asks for one; nothing is committed under it
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": FETCH_WAIT_MS,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    seen = Seen()
    pipe.send("watching")
    while not _is_over(pipe, seen):
        message = consumer.poll(POLL_SECONDS)
        if message is not None and message.error() is None:
            seen.moments_ns.append(time.time_ns())
            seen.values.append(message.value())
    consumer.close()
