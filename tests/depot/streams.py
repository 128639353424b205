"""Drivers that tests kill, kept running as supervision would."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

import psutil
from lockstep.errors import StreamError
from lockstep.settings import Settings
from lockstep.supervise import launcher, lease
from lockstep_tools.soak import drivers

SECONDS_MAX = 240.0


@dataclass
class Streams:
    """One driver and the names of its streams. settings: of the first one's pipeline."""

    settings: Settings
    names: Sequence[str]
    restarts: int = 0

    def keep(self) -> None:
        """Start it again if a service's absence, or a test, ended it."""
        if self.pid is None:
            try:
                launcher.start(self.settings, self.names, "a test")
            except StreamError:  # a service is away still
                time.sleep(1.0)
            self.restarts += 1

    @property
    def pid(self) -> int | None:
        return lease.holder(self.settings, self.names[0])

    def kill(self, rng: Random) -> None:
        """SIGKILL to Python, its JVM or both."""
        pid = self.pid
        if pid is not None:
            process = psutil.Process(pid)
            drivers.kill(process, rng.choice(["python", "jvm", "both"]))
            psutil.wait_procs([process], SECONDS_MAX)

    def stop(self) -> None:
        launcher.stop(self.settings, self.names, "the test is over")


def until(is_true: Callable[[], bool], kept: Sequence[Streams]) -> None:
    """Wait, and keep the streams running meanwhile."""
    deadline = time.monotonic() + SECONDS_MAX
    while not is_true():
        assert time.monotonic() < deadline, [
            launcher.end_of_log(one.settings, one.names[0])[-3000:] for one in kept
        ]
        time.sleep(0.3)
        for one in kept:
            one.keep()
