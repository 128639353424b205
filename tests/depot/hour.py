"""An hour of both sources in a real Airflow: memory, latency, and when the verdicts come.

    python -m tests.depot.hour --minutes 60

Every stream of every pipeline is started by its DAG, while orders come and the depot's application
writes. The hourly and comparing DAGs run as they are scheduled: an hour that is due in the run, at
five past, has its verdicts counted from there. Once the last hour is run by hand, and its verdicts
are timed. At the end each driver is killed once, and Airflow brings its streams back. Prints a line
a minute, and a table.
"""

import argparse
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from random import randrange
from tempfile import TemporaryDirectory

import psutil
from lockstep.capture.source_capture import capture_source
from lockstep.ledger import book
from lockstep.ledger.entries import Comparison
from lockstep.pipeline.plan import plan_named
from lockstep.pipeline.project import read_project
from lockstep.settings import Settings
from lockstep.supervise import launcher
from lockstep.supervise.health import Health
from lockstep.supervise.heartbeat import Heartbeat, read_heartbeat
from lockstep.supervise.observation import observe
from lockstep.waiting import wait_until
from lockstep_tools.soak.drivers import kill
from pizzeria.names import MANIFEST
from pizzeria.shop.generator import generate
from rich.console import Console
from rich.table import Table

from tests.depot.conftest import DEPOT
from tests.depot.writer import KEYS, DepotWriter
from tests.e2e.airflow_rest import Airflow, wait_for
from tests.e2e.conftest import stack_of_its_own
from tests.project import PROJECT_DIR

MIB = 1024**2
GIB = 1024**3
MINUTE_SECONDS = 60.0
ORDERS_PER_SECOND = 5.0
SETTLED_MINUTES = 10
VERDICT_SECONDS_MAX = 900.0
DEPOT_PAUSE_SECONDS = 0.3
"""Between two transactions of the depot's one writer."""
PIPELINES = (MANIFEST, *KEYS)
console = Console(width=100, highlight=False)


@dataclass(frozen=True)
class Stream:
    settings: Settings
    mode: str

    @property
    def name(self) -> str:
        return f"{self.settings.names.pipeline} {self.mode}"

    @property
    def beat(self) -> Heartbeat:
        beat = read_heartbeat(self.settings, self.mode)
        assert beat is not None, f"{self.name} never beat"
        return beat


@dataclass
class Samples:
    """Of each minute: MiB by source, seconds by stream (p50, p99), the machine's GiB in use."""

    memory: list[dict[str, float]] = field(default_factory=list)
    latency: list[dict[str, tuple[float, float]]] = field(default_factory=list)
    used: list[float] = field(default_factory=list)

    def take(self, streams: Sequence[Stream]) -> None:
        beats = [(one, one.beat) for one in streams]
        ill = [one.name for one in streams if observe(one.settings, one.mode).finding.health.wrong]
        self.memory.append(
            {one.settings.names.source: b.driver_memory_bytes / MIB for one, b in beats}
        )
        self.latency.append(
            {one.name: (b.latency.p50, b.latency.p99) for one, b in beats if b.latency}
        )
        self.used.append(psutil.virtual_memory().used / GIB)
        slowest = max((p99 for _, p99 in self.latency[-1].values()), default=0.0)
        memory = ", ".join(f"{name} {mib:,.0f} MiB" for name, mib in self.memory[-1].items())
        console.print(
            f"{datetime.now(UTC):%H:%M} {memory}; machine {self.used[-1]:.1f} GiB; slowest p99 "
            f"{slowest:.2f} s{'; NOT WELL: ' + ', '.join(ill) if ill else ''}"
        )


def started(settings: Settings, airflow: Airflow, pipelines: Sequence[str]) -> list[Stream]:
    """Each stream, by its DAG. Fails when one does not come to work."""
    found = []
    for pipeline in pipelines:
        of = settings.of(pipeline)
        for mode in plan_named(PROJECT_DIR, pipeline).manifest.modes:
            airflow.wait_for_dag(of.names.stream_dag_id(mode))
            airflow.trigger(of.names.stream_dag_id(mode))
            found.append(Stream(of, str(mode)))
    for one in found:
        wait_for(
            lambda one=one: observe(one.settings, one.mode).finding.health is Health.OK,
            f"{one.name} at work",
        )
    return found


@contextmanager
def orders(settings: Settings, seed: int) -> Iterator[None]:
    """Orders come as long as the block lasts, and up to a minute more."""
    over = threading.Event()

    def write() -> None:
        number = seed
        while not over.is_set():
            number += 1
            generate(settings, rate=ORDERS_PER_SECOND, seconds=MINUTE_SECONDS, seed=number)

    writing = threading.Thread(target=write)
    writing.start()
    try:
        yield
    finally:
        over.set()
        writing.join()


def print_streams(samples: Samples) -> None:
    """Latency of each stream: median of the minutes, worst minute; the first five left out."""
    table = Table(title="Commit to readable, seconds, by minute after the first five")
    for column in ("stream", "p50, median", "p99, median", "p99, worst"):
        table.add_column(column, justify="left" if column == "stream" else "right")
    counted = samples.latency[5:] or samples.latency
    for name in counted[-1]:
        p50s = sorted(minute[name][0] for minute in counted if name in minute)
        p99s = sorted(minute[name][1] for minute in counted if name in minute)
        middle = len(p50s) // 2
        table.add_row(name, f"{p50s[middle]:.2f}", f"{p99s[middle]:.2f}", f"{p99s[-1]:.2f}")
    console.print(table)


def print_memory(samples: Samples) -> None:
    for source, last in samples.memory[-1].items():
        settled = samples.memory[min(15, len(samples.memory) - 1)][source]
        most = max(minute[source] for minute in samples.memory)
        console.print(
            f"driver of {source}: {settled:,.0f} MiB after 15 minutes, {last:,.0f} at the end, "
            f"{most:,.0f} at most"
        )
    console.print(f"machine: {max(samples.used):.1f} GiB in use at most")


def print_verdicts(settings: Settings, began: datetime) -> None:
    """Of each window that was due in the run, how long after it was due each verdict came."""
    for pipeline in PIPELINES:
        of = settings.of(pipeline)
        windows = plan_named(PROJECT_DIR, pipeline).manifest.windows
        for line in book.lines(of):
            due = windows.due_at(line.window)
            if due >= began:
                console.print(
                    f"{pipeline} {line.mode}, {line.window}: {line.verdict} {line.reason}, "
                    f"{line.orders_compared:,} rows, {(line.checked_at - due).total_seconds():.0f} "
                    "s after it was due"
                )


def time_verdicts(settings: Settings, airflow: Airflow, streams: int) -> None:
    """Ask for the last hour's run by hand: how long until each mode has its verdict."""
    of = settings.of(MANIFEST)
    modes = set(plan_named(PROJECT_DIR, MANIFEST).manifest.modes)
    asked_at = datetime.now(UTC)
    airflow.trigger(of.names.hourly_dag_id)

    def verdicts() -> list[Comparison]:
        return [line for line in book.lines(of) if line.checked_at >= asked_at]

    found = wait_until(
        verdicts, VERDICT_SECONDS_MAX, 1.0, lambda lines: {line.mode for line in lines} >= modes
    )
    listed = ", ".join(
        f"{line.mode} {(line.checked_at - asked_at).total_seconds():.0f}" for line in found
    )
    rows = max((line.orders_compared for line in found), default=0)
    console.print(
        f"with {streams} streams: verdicts of {rows:,} rows after {listed} s; the comparisons "
        f"themselves took {sum(line.seconds for line in found):.0f}"
    )


def kill_drivers(streams: Sequence[Stream]) -> None:
    """Each source's once: how long until all of its streams work again, in one driver."""
    for source in sorted({one.settings.names.source for one in streams}):
        of_source = [one for one in streams if one.settings.names.source == source]
        (old,) = {one.beat.pid for one in of_source}
        kill(psutil.Process(old), "both")
        killed = time.monotonic()
        wait_for(
            lambda of_source=of_source, old=old: all(
                observe(one.settings, one.mode).finding.health is Health.OK and one.beat.pid != old
                for one in of_source
            ),
            f"the return of {source}'s streams",
        )
        pids = {one.beat.pid for one in of_source}
        console.print(
            f"driver of {source} killed: its {len(of_source)} streams work again after "
            f"{time.monotonic() - killed:.0f} s, in {len(pids)} driver"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("--pipeline", action="append", choices=PIPELINES, help="only this one")
    arguments, seed = parser.parse_args(), randrange(1000)
    minutes, pipelines = arguments.minutes, arguments.pipeline or PIPELINES
    console.print(f"seed {seed}")
    with (
        TemporaryDirectory(prefix="two-sources-") as home,
        stack_of_its_own(Path(home), ["connect", "airflow"]) as settings,
    ):
        project = read_project(PROJECT_DIR)
        capture_source(settings, project, project.source(DEPOT))
        airflow, began, samples = Airflow(settings), datetime.now(UTC), Samples()
        for pipeline in set(KEYS) & set(pipelines):
            airflow.wait_for_dag(hourly := settings.of(pipeline).names.hourly_dag_id)
            airflow.pause(hourly, False)
        streams = started(settings, airflow, pipelines)
        seconds = (datetime.now(UTC) - began).total_seconds()
        drivers = {(one.settings.names.source, one.beat.pid) for one in streams}
        console.print(f"{len(streams)} streams work after {seconds:.0f} s, in {sorted(drivers)}")
        writer = DepotWriter(settings, seed, DEPOT_PAUSE_SECONDS)
        writer.start()
        try:
            with orders(settings, seed * 1000):
                for minute in range(1, minutes + 1):
                    time.sleep(MINUTE_SECONDS)
                    samples.take(streams)
                    if minute == min(SETTLED_MINUTES, minutes):
                        time_verdicts(settings, airflow, len(streams))
                kill_drivers(streams)
            writer.end()
            print_streams(samples)
            print_memory(samples)
            print_verdicts(settings, began)
        finally:
            launcher.stop_all(settings, "the hour is over")


if __name__ == "__main__":
    main()
