"""The sides of the comparison: Lockstep's stream, and Flink's job with each sink.

Each run of a side begins at the change topic's start with an empty table or topic, so that all have
the same work and none has an old table. Nothing here measures; what each row waited for follows
from what a run returns.
"""

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from lockstep.accounts import KafkaUser
from lockstep.host.ports import free_ports
from lockstep.kafka_login import client
from lockstep.model.modes import StreamMode
from lockstep.settings import Settings
from lockstep.supervise import launcher
from lockstep.supervise.folder import mode_folder

from lockstep_tools.bench.change_rows import VISIBLE_AT, rows_seen
from lockstep_tools.bench.peer import job, process
from lockstep_tools.bench.peer.install import Flink
from lockstep_tools.bench.peer.job import FlinkJob, Sink
from lockstep_tools.bench.peer.rows import Rows, rows_of_records, rows_of_snapshots
from lockstep_tools.bench.peer.sink_watch import Seen, SinkWatch
from lockstep_tools.bench.peer.topic_rows import topic_rows
from lockstep_tools.bench.stream_stack import REASON
from lockstep_tools.bench.topics import make_topic
from lockstep_tools.bench.version_watch import VersionWatch
from lockstep_tools.soak.catching_up import wait_until_caught_up
from lockstep_tools.soak.change_logs import folder_of

MODE = StreamMode.OUTBOX
OURS = "outbox to Delta"
"""The name of Lockstep's side."""


@dataclass(frozen=True)
class Run:
    """A side that works. pid: of its process. start_seconds: what its start took.

    wait_for: waits until so many rows of the outbox, which are all, can be read, or for so many
    seconds. rows: ends the run's watch; what could be read, and when.
    """

    pid: int
    start_seconds: float
    ready_ns: int
    wait_for: Callable[[int, float], None]
    rows: Callable[[], Rows]


class Side(Protocol):
    """Starts once for each repetition, and is ended with the block."""

    name: str

    def running(self) -> AbstractContextManager[Run]: ...


class Lockstep:
    """The stream mode, from an empty table each time."""

    name = OURS

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._table = folder_of(settings, MODE)

    @contextmanager
    def running(self) -> Iterator[Run]:
        settings, name = self._settings, str(MODE)
        for folder in (self._table, mode_folder(settings, name)):
            shutil.rmtree(folder, ignore_errors=True)
        with VersionWatch({name: self._table}) as watch:
            began = time.monotonic()
            record = launcher.start(settings, [name], REASON)
            start_seconds, ready_ns = time.monotonic() - began, time.time_ns()
            try:
                yield Run(
                    record.pid,
                    start_seconds,
                    ready_ns,
                    lambda _rows, seconds_max: _caught_up(settings, seconds_max),
                    lambda: self._rows(watch.seen()[name]),
                )
            finally:
                launcher.stop_all(settings, REASON)

    def _rows(self, seen_ns: Mapping[int, int]) -> Rows:
        found = rows_seen(self._table, seen_ns)
        committed = found["committed_at"].to_numpy().astype("datetime64[us]").astype(np.int64)
        visible = found[VISIBLE_AT].to_numpy().astype("datetime64[ns]").astype(np.int64)
        return Rows(found["order_id"].to_numpy().astype(np.int64), committed, visible)


def _caught_up(settings: Settings, seconds_max: float) -> None:
    wait_until_caught_up(settings, [MODE], seconds_max)


class FlinkTo:
    """Flink's job with one sink, a new table or topic each time."""

    def __init__(self, settings: Settings, flink: Flink, sink: Sink) -> None:
        self.name = f"Flink to {sink.capitalize()}"
        self._settings, self._flink, self._sink = settings, flink, sink
        self._runs = 0

    @contextmanager
    def running(self) -> Iterator[Run]:
        self._runs += 1
        settings, name = self._settings, f"flink_{self._sink}_{self._runs}"
        (port,) = free_ports(1)
        folder = settings.home / process.FOLDER / name
        flink = self._flink
        jars = flink.kafka_jars if self._sink is Sink.KAFKA else flink.jars
        configured = job.configuration(folder, jars, port)
        made, watch = self._job(folder / "warehouse", name, configured)
        memory = settings.spark_driver_memory
        with (
            watch,
            process.running(flink, made, settings.home, port, memory) as running,
        ):
            yield Run(
                running.record.pid,
                running.start_seconds,
                running.ready_ns,
                lambda rows, seconds_max: watch.wait_for(
                    rows, seconds_max, lambda: running.is_alive
                ),
                lambda: self._rows(watch.seen()),
            )

    def _job(
        self, warehouse: Path, name: str, configured: Mapping[str, str]
    ) -> tuple[FlinkJob, SinkWatch]:
        if self._sink is Sink.KAFKA:
            make_topic(self._settings, name)
            login = client(self._settings, KafkaUser.ADMIN)
            made = job.kafka_job(self._settings, configured, name)
            return made, SinkWatch.of_topic(login, name)
        table = job.paimon_table(warehouse, name)
        return job.paimon_job(self._settings, configured, table), SinkWatch.of_paimon(table)

    def _rows(self, seen: Seen) -> Rows:
        if self._sink is Sink.KAFKA:
            return rows_of_records(seen.values, seen.moments_ns)
        return rows_of_snapshots(seen.totals, seen.moments_ns, topic_rows(self._settings))
