"""Starts and stops streams: writes the desired state, launches a detached driver, waits for the
outcome.

The driver outlives who started it. That a mode is not run twice is the lease's doing, which the
driver takes itself: of two starts at once one wins, and the other gets an error.
"""

import os
import signal
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import NoReturn

import psutil

from lockstep.accounts import KafkaUser, Role
from lockstep.errors import StreamError
from lockstep.host import process
from lockstep.host.environment import settings_environment
from lockstep.host.files import bounded_log
from lockstep.host.process import Launch, ProcessRecord
from lockstep.model.modes import PUBLISHER
from lockstep.settings import (
    IN_FILE,
    SOURCE_ROLES,
    Settings,
    holds_password,
    password_setting,
    source_password_setting,
)
from lockstep.supervise import lease
from lockstep.supervise.desired import DesiredState, is_desired, write_desired
from lockstep.supervise.driver_memory import require_memory
from lockstep.supervise.errors import StreamBusyError, StreamFailedError, StreamNotStoppedError
from lockstep.supervise.folder import mode_folder, workers
from lockstep.supervise.heartbeat import read_heartbeat
from lockstep.supervise.logs import end_of_log, point_to_log
from lockstep.supervise.observation import running_workers
from lockstep.supervise.start_up import START_SECONDS_MAX, is_silent, still_starting

DRIVER = ("-m", "lockstep.streams")
"""What Python runs: a package's __main__, as is the next."""
PUBLISHING = ("-m", "lockstep.publish")
"""The publisher is kept running as the streams are, by a name next to their modes."""
STOP_SECONDS_MAX = 120.0
"""A stop waits for the write under way, which may hold a large transaction."""
TERM_SECONDS_MAX = 10.0
"""For a driver that does not let a mode go: it did not listen until here."""
POLL_SECONDS = 0.1
_USERS = (Role.BATCH_READER, Role.CDC, KafkaUser.READER)
_PASSWORDS = {"LOCKSTEP_CONNECT_PASSWORD", *map(password_setting, _USERS)}
"""What a driver signs in with: to look orders up, to ask for the log's position, to read the change
topic, and to have the connector mark no other slot. Those of the source's own roles come with
them."""
MEMORY = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "2",
    # delta-rs's own allocator: one arena, nothing kept by its 100 and more threads, and what is
    # free given back after a second.
    "_RJEM_MALLOC_CONF": (
        "narenas:1,tcache:false,dirty_decay_ms:1000,muzzy_decay_ms:0,background_thread:true"
    ),
}
"""So that what a driver's threads free is used again, or returned: Arrow's own pool kept 167 MiB of
which it used 3 (docs/decisions/streams.md). What the environment says otherwise holds."""
_NAME_CHARACTERS_MAX = 100
"""Of a driver's name, by which its log goes."""


@dataclass(frozen=True)
class Stopped:
    """How a mode was stopped; `killed` when its driver did not end by itself."""

    mode: str
    was_running: bool
    killed: bool


def start(
    settings: Settings,
    modes: Sequence[str],
    reason: str,
    restarts: int = 0,
    also: Sequence[str] = (),
) -> ProcessRecord:
    """Start a driver of their own for these modes and wait until each of them works.

    Where the source has no driver yet it becomes that one, which others of its streams join
    (source_driver.py).
    also: more modes for the same driver, which are desired already; they are not waited for.
    Raises StreamBusyError when a mode is run already, by then or in the meantime; what runs is
    left alone. Raises DriverTooLargeError when the machine has no room for the driver, and
    StreamFailedError, with the driver's error or the end of its log, when a mode does not come to
    work.
    """
    hosted = sorted([*modes, *also])  # of two drivers for the same modes one gets all leases
    lease.require_free(settings, hosted)
    if PUBLISHER not in hosted:  # it has no JVM
        require_memory(settings, len(hosted))
    since = datetime.now(UTC)
    for mode in modes:
        write_desired(settings, mode, DesiredState.RUNNING, reason, restarts)
    name = _driver_name(settings, hosted)
    log = bounded_log(settings.home, name)
    for mode in hosted:
        point_to_log(settings, mode, log)
    record = process.spawn(name, _launch(settings, hosted, log))
    _wait_until_at_work(settings, modes, hosted, record, since)
    return record


def stop(settings: Settings, modes: Sequence[str], reason: str) -> list[Stopped]:
    """Set the desired state of these modes to stopped, and wait until they have.

    A mode stops after the write under way. A driver that does not let go of a mode in time is
    killed, with all that it runs; nothing is lost by that. Other modes of the driver are left
    running otherwise. Raises StreamBusyError when it is no driver that holds the mode, but a
    rebuild: that is not interrupted.
    """
    running = {mode for mode in modes if lease.holder(settings, mode) is not None}
    for mode in modes:
        write_desired(settings, mode, DesiredState.STOPPED, reason)
    late = _still_held(settings, running, STOP_SECONDS_MAX)
    for mode in late:
        _kill_driver(settings, mode)
    if late and (held := _still_held(settings, late, TERM_SECONDS_MAX)):
        raise StreamNotStoppedError(sorted(held), STOP_SECONDS_MAX)
    return [Stopped(mode, mode in running, mode in late) for mode in modes]


def stop_all(settings: Settings, reason: str) -> list[Stopped]:
    """Stop all workers, as `stop` does, and wait until their processes end, too.

    Also those that wait for their restart, and drivers in a terminal, which have no desired state.
    For what is about to take away all that a driver needs.
    """
    pids = {lease.holder(settings, worker) for worker in workers(settings)} - {None}
    drivers = [_record_of(pid) for pid in pids]
    stopped = stop(settings, _running_or_desired(settings), reason)
    for driver in drivers:
        process.stop(driver, signal.SIGTERM, TERM_SECONDS_MAX)
    return stopped


def _running_or_desired(settings: Settings) -> list[str]:
    desired = {worker for worker in workers(settings) if _may_be_desired(settings, worker)}
    return sorted(desired.union(running_workers(settings)))


def _may_be_desired(settings: Settings, mode: str) -> bool:
    """Also of a damaged file, which a stop writes again."""
    try:
        return is_desired(settings, mode)
    except StreamError:
        return True


def _driver_name(settings: Settings, hosted: Sequence[str]) -> str:
    """The same for the same modes, and another one for others."""
    name = f"stream-{settings.names.pipeline}-{'-'.join(hosted)}"
    if len(name) <= _NAME_CHARACTERS_MAX:
        return name
    return f"{name[:_NAME_CHARACTERS_MAX]}-{sha256(name.encode()).hexdigest()[:10]}"


def _launch(settings: Settings, modes: Sequence[str], log: Path) -> Launch:
    command = [sys.executable, *DRIVER]
    command += [option for mode in modes for option in ("--mode", mode)]
    if PUBLISHER in modes:  # always alone
        command = [sys.executable, *PUBLISHING]
    return Launch(
        command=command,
        log=log,
        environment=_environment(settings),
        working_folder=mode_folder(settings, modes[0]),
    )


def _environment(settings: Settings) -> Mapping[str, str]:
    """Ours without what belongs to an Airflow task, and without passwords of no use to a driver."""
    source = settings.names.source
    own = {source_password_setting(source, role) for role in SOURCE_ROLES}
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.lstrip("_").startswith(("AIRFLOW", "PG"))
        and (not holds_password(name) or name.removesuffix(IN_FILE) in _PASSWORDS | own)
    }
    return {**MEMORY, **kept, **settings_environment(settings), "PYTHONUNBUFFERED": "1"}


def _wait_until_at_work(
    settings: Settings,
    modes: Sequence[str],
    hosted: Sequence[str],
    record: ProcessRecord,
    since: datetime,
) -> None:
    """For these modes, of all that the driver hosts."""
    waiting = list(modes)
    while waiting:
        alive = record.process() is not None  # asked first: its last heartbeat comes before its end
        waiting = still_starting(settings, waiting, record.pid, since)
        if waiting and not alive:
            _raise_ended(settings, waiting[0], hosted, record)
        if waiting and is_silent(settings, waiting, record.pid, since, START_SECONDS_MAX):
            process.stop(record, signal.SIGTERM, TERM_SECONDS_MAX)
            why = f"did not come to work within {START_SECONDS_MAX:.0f} s"
            raise StreamFailedError(waiting[0], why, end_of_log(settings, waiting[0]))
        time.sleep(POLL_SECONDS)


def _raise_ended(
    settings: Settings, waiting: str, hosted: Sequence[str], record: ProcessRecord
) -> NoReturn:
    """The driver is gone: because another one has a mode of it, or for a reason in its log."""
    for mode in hosted:
        if (pid := lease.holder(settings, mode)) not in (None, record.pid):
            raise StreamBusyError(mode, pid)
    why = f"its driver (pid {record.pid}) ended while it started"
    raise StreamFailedError(waiting, why, end_of_log(settings, waiting))


def _still_held(settings: Settings, modes: Collection[str], seconds_max: float) -> set[str]:
    """Wait until the modes are free; returns those that are not after so many seconds."""
    deadline = time.monotonic() + seconds_max
    held = set(modes)
    while held := {mode for mode in held if lease.holder(settings, mode) is not None}:
        if time.monotonic() > deadline:
            break
        time.sleep(POLL_SECONDS)
    return held


def _kill_driver(settings: Settings, mode: str) -> None:
    """End the driver that holds the mode, and the JVM to which a dead one left it."""
    if (pid := lease.holder(settings, mode)) is None:
        return
    beat = read_heartbeat(settings, mode)
    if beat is None or beat.pid != pid:  # a driver beats as soon as it holds the mode
        raise StreamBusyError(mode, pid)
    process.stop(_record_of(pid), signal.SIGTERM, TERM_SECONDS_MAX)


def _record_of(holder: int) -> ProcessRecord:
    """Of a process that holds a lease now."""
    try:
        return ProcessRecord(holder, psutil.Process(holder).create_time())
    except psutil.NoSuchProcess:
        return ProcessRecord(holder, 0.0)  # its session is still its own: the lease says so
