"""One driver for a source: a stream that is started joins it, or starts it where there is none.

A driver is a JVM and takes over 1 GB; a stream that joins one takes a tenth of that, and a second
or two to start. Streams of all pipelines of the source share it, those of a command and those of
Airflow's DAGs. A request to join is the stream's desired state with the driver's pid.
"""

import os
import time
from collections.abc import Sequence
from datetime import UTC, datetime

import psutil

from lockstep.errors import StreamError
from lockstep.settings import Settings
from lockstep.supervise import launcher, lease
from lockstep.supervise.desired import Desired, DesiredState, read_desired, write_desired
from lockstep.supervise.driver_memory import require_memory
from lockstep.supervise.errors import StreamFailedError
from lockstep.supervise.folder import workers
from lockstep.supervise.start_up import START_SECONDS_MAX, is_silent, still_starting

POLL_SECONDS = 0.1


def start(
    settings: Settings,
    modes: Sequence[str],
    reason: str,
    restarts: int = 0,
    also: Sequence[str] = (),
) -> int:
    """Start these modes in the driver of their source, and wait until each works; its pid.

    also: more modes, desired already, that come along where a driver has to be started. Raises
    StreamBusyError, DriverTooLargeError and StreamFailedError as launcher.start does. A driver that
    ends before it has taken the modes in is followed by a new one.
    """
    deadline = time.monotonic() + START_SECONDS_MAX
    while True:
        with lease.acquire_start(settings, modes[0], START_SECONDS_MAX):
            driver = lease.source_holder(settings)
            if driver is None:
                return launcher.start(settings, modes, reason, restarts, also).pid
        if _joined(settings, driver, modes, reason, restarts, deadline):
            return driver


def asked(settings: Settings, since: datetime) -> dict[str, Desired]:
    """The streams that this process is asked to host, by name, with what is desired of them.

    since: when it started. A file that is damaged asks for nothing.
    """
    found = {name: _desired(settings, name) for name in workers(settings)}
    return {
        name: desired
        for name, desired in found.items()
        if desired is not None
        and desired.state is DesiredState.RUNNING
        and desired.joins == os.getpid()
        and desired.changed_at > since
    }


def _desired(settings: Settings, name: str) -> Desired | None:
    try:
        return read_desired(settings, name)
    except (StreamError, OSError):
        return None


def _joined(
    settings: Settings,
    driver: int,
    modes: Sequence[str],
    reason: str,
    restarts: int,
    deadline: float,
) -> bool:
    """Whether the modes work in this driver; False when it ended before."""
    lease.require_free(settings, modes)
    require_memory(settings, len(modes), join=True)
    since = datetime.now(UTC)
    for mode in modes:
        write_desired(settings, mode, DesiredState.RUNNING, reason, restarts, joins=driver)
    waiting = list(modes)
    while waiting := still_starting(settings, waiting, driver, since):
        if lease.source_holder(settings) != driver:
            return False
        is_late = time.monotonic() > deadline
        if is_late and is_silent(settings, waiting, driver, since, START_SECONDS_MAX):
            alive = "runs" if psutil.pid_exists(driver) else "has ended, and its JVM has not"
            why = f"did not come to work within {START_SECONDS_MAX:.0f} s in the driver of its "
            raise StreamFailedError(waiting[0], f"{why}source (pid {driver}), which {alive}")
        time.sleep(POLL_SECONDS)
    return True
