"""A pipeline's stream over the real Debezium: each version of its table is a prefix of the history.

The driver is a process of its own, started as a person starts it. Services and driver are killed
while a writer works; PLANT_KILLS says how often each of them (a soak takes ten).
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import psutil
import pytest
from deltalake import DeltaTable
from lockstep.devstack import control
from lockstep.pipeline.modes import Mode
from lockstep_tools.soak import connector_restarts, drivers

from tests.plant.conftest import PlantProject
from tests.plant.writer import PlantWriter, Written

pytestmark = pytest.mark.services
KILLS = int(os.environ.get("PLANT_KILLS", "1"))
SECONDS_MAX = 180.0
RESTARTS_MAX = 5 * KILLS + 2
CONNECT, POSTGRES, DRIVER = "connect", "postgres", "driver"


class Driver:
    """`lockstep pipeline stream` in a process of its own."""

    def __init__(self, project: PlantProject, log: Path) -> None:
        self._project, self._log = project, log
        self.restarts = 0
        self.process = self._start()

    def _start(self) -> subprocess.Popen:
        names = self._project.plant
        lockstep = Path(sys.executable).with_name("lockstep")
        command = [lockstep, "pipeline", "stream", names.pipeline, "temporal"]
        environment = {
            **os.environ,
            "LOCKSTEP_PROJECT": str(self._project.folder),
            "LOCKSTEP_JARS_DIR": str(self._project.settings.jars_dir),
            "LOCKSTEP_LAKEHOUSE": self._project.settings.lakehouse_uri,
        }
        with self._log.open("ab") as log:
            return subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    def kill(self, part: str) -> None:
        """SIGKILL `python`, its `jvm`, or `both`, and start it again when it is gone."""
        drivers.kill(psutil.Process(self.process.pid), part)
        self.process.wait(SECONDS_MAX)
        self.process = self._start()

    def keep(self) -> None:
        """Start it again if a service's absence ended it, as supervision would."""
        if self.process.poll() is not None:
            self.restarts += 1
            assert self.restarts <= RESTARTS_MAX, self.text()[-3000:]
            self.process = self._start()

    def stop(self) -> int:
        """End it as a person does; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(SECONDS_MAX)

    def text(self) -> str:
        return self._log.read_text()


@contextmanager
def driver_of(project: PlantProject, folder: Path) -> Iterator[Driver]:
    """Running for the block, and gone after it."""
    running = Driver(project, folder / "driver.log")
    try:
        yield running
    finally:
        for process in (
            [*psutil.Process(running.process.pid).children(recursive=True)]
            if (running.process.poll() is None)
            else []
        ):
            process.kill()
        running.process.kill()
        running.process.wait(SECONDS_MAX)


def until(is_true: Callable[[], bool], driver: Driver) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not is_true():
        assert time.monotonic() < deadline, driver.text()[-3000:]
        time.sleep(0.3)
        driver.keep()


def change_log(project: PlantProject) -> DeltaTable | None:
    uri = project.settings.table_uri(project.plan.change_log(Mode.TEMPORAL))
    return DeltaTable(uri) if DeltaTable.is_deltatable(uri) else None


def versions(project: PlantProject, table: DeltaTable) -> list[Written]:
    """The rows that came by a transaction, in the order of the commits."""
    names = project.plant
    rows = sorted(table.to_pyarrow_table().to_pylist(), key=lambda one: one["commit_lsn"])
    return [
        Written(
            one["tx_id"],
            one[names.reading_id],
            None
            if one["op"] == "d"
            else (one[names.sensor_name], one[names.city], one[names.amount]),
        )
        for one in rows
        if one["tx_id"] is not None
    ]


def require_prefixes(project: PlantProject, table: DeltaTable, written: list[Written]) -> int:
    """Each version that can still be read has whole transactions, in the order of commits."""
    numbers = {tx_id: at for at, tx_id in enumerate(dict.fromkeys(one.tx_id for one in written))}
    sizes = [0] * len(numbers)
    for one in written:
        sizes[numbers[one.tx_id]] += 1
    checked = 0
    for version in range(table.version() + 1):
        found: dict[int, int] = {}
        for tx_id in (
            DeltaTable(table.table_uri, version)
            .to_pyarrow_table(columns=["tx_id"])["tx_id"]
            .to_pylist()
        ):
            if tx_id is not None:
                found[numbers[tx_id]] = found.get(numbers[tx_id], 0) + 1
        prefix = range(len(found))
        assert [found.get(number) for number in prefix] == [sizes[number] for number in prefix], (
            version
        )
        checked += 1
    return checked


def test_no_kill_of_driver_connect_or_postgresql_leaves_a_wrong_version(
    captured_plant: PlantProject, tmp_path: Path
) -> None:
    seed = int(os.environ.get("PLANT_SEED", "3"))
    print(f"seed {seed}, {KILLS} kills each")  # noqa: T201 - shown when a test fails
    project, rng = captured_plant, Random(seed)
    targets = [DRIVER, CONNECT, POSTGRES] * KILLS
    rng.shuffle(targets)
    writer = PlantWriter(project, seed)
    with driver_of(project, tmp_path) as driver:
        until(lambda: change_log(project) is not None, driver)
        writer.start()
        for target in targets:
            rows = change_log(project).to_pyarrow_table(columns=["tx_id"]).num_rows
            assert writer.failure is None, repr(writer.failure)
            until(
                lambda rows=rows: (
                    change_log(project).to_pyarrow_table(columns=["tx_id"]).num_rows > rows + 20
                ),
                driver,
            )
            if target == DRIVER:
                driver.kill(rng.choice(["python", "jvm", "both"]))
            else:
                connector_restarts.kill(project.settings, target)
                control.up(project.settings, [CONNECT])
        written = writer.end()
        until(lambda: len(versions(project, change_log(project))) >= len(written), driver)
        assert driver.stop() == 0, driver.text()[-3000:]
    table = change_log(project)
    found = versions(project, table)
    assert sorted(found, key=str) == sorted(written, key=str)
    checked = require_prefixes(project, table, written)
    print(f"{len(written)} changes, {checked} versions")  # noqa: T201 - of a soak
