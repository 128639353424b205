"""The driver of the plant's streams, a process of its own, started as a person starts it."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil
from lockstep.waiting import wait_until
from lockstep_tools.soak import drivers

from tests.plant.conftest import PlantProject

SECONDS_MAX = 180.0


class Driver:
    """`lockstep` with these arguments in a process of its own."""

    def __init__(
        self, project: PlantProject, log: Path, arguments: Sequence[str], restarts_max: int
    ) -> None:
        self._project, self._log, self._arguments = project, log, arguments
        self._restarts_max = restarts_max
        self.restarts = 0
        self.process = self._start()

    def _start(self) -> subprocess.Popen:
        command = [Path(sys.executable).with_name("lockstep"), *self._arguments]
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
            assert self.restarts <= self._restarts_max, self.text()[-3000:]
            self.process = self._start()

    def stop(self) -> int:
        """End it as a person does; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(SECONDS_MAX)

    def text(self) -> str:
        return self._log.read_text()


@contextmanager
def driver_of(
    project: PlantProject, folder: Path, arguments: Sequence[str], restarts_max: int = 0
) -> Iterator[Driver]:
    """Running for the block, and gone after it. restarts_max: by `keep`."""
    running = Driver(project, folder / "driver.log", arguments, restarts_max)
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
    """Wait, and keep the driver running meanwhile."""

    def keeping() -> bool:
        driver.keep()
        return is_true()

    assert is_true() or wait_until(keeping, SECONDS_MAX, 0.3), driver.text()[-3000:]
