"""Drivers that tests kill, and their connectors, kept running as supervision would."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random

import psutil
from lockstep.capture import connector
from lockstep.capture.connectors import registered_connector
from lockstep.errors import ServiceError, StreamError
from lockstep.settings import Settings
from lockstep.supervise import launcher, lease, source_driver
from lockstep.supervise.logs import end_of_log
from lockstep.waiting import wait_until
from lockstep_tools.soak import drivers

SECONDS_MAX = 600.0
"""Nineteen streams share two cores with what writes: a backlog may take minutes."""
POLL_SECONDS = 1.0
"""Each look reads tables and asks Connect, with the processor that the streams need."""


@dataclass
class Streams:
    """A source's driver and its streams' names. settings: of the first one's pipeline."""

    settings: Settings
    names: Sequence[str]

    def keep(self) -> None:
        """Start again what a service's absence, or a test, ended; also what failed in Connect.

        Half of the streams start the driver, and the others join it at the next call.
        """
        self._keep_connector()
        ended = [name for name in self.names if lease.holder(self.settings, name) is None]
        if len(ended) == len(self.names):
            ended = ended[: len(ended) // 2]
        if ended:
            with suppress(StreamError):  # a service is away still: `until` keeps it again
                source_driver.start(self.settings, ended, "a test")

    def _keep_connector(self) -> None:
        """Restart what failed of it, as Airflow's supervision does."""
        capture = registered_connector(self.settings)
        with suppress(ServiceError):  # Connect, or the database, is away still
            if failure := connector.failure(self.settings, capture):
                print(failure)  # noqa: T201 - shown when a test fails
                connector.restart_failed(self.settings, capture)

    def problems(self) -> tuple[str | None, str]:
        """What keeps the source's rows from the tables: its connector's trouble, its log's end."""
        trouble = connector.trouble(self.settings, registered_connector(self.settings))
        return trouble, end_of_log(self.settings, self.names[0])[-3000:]

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

    def keeping() -> bool:
        for one in kept:
            one.keep()
        return is_true()

    assert is_true() or wait_until(keeping, SECONDS_MAX, POLL_SECONDS), [
        one.problems() for one in kept
    ]
