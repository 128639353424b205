"""Detached processes, remembered as a pid and its time of creation in HOME/run/<service>.json.

A process outlives the command that started it; the pair distinguishes it from a later process that
got the same pid. What the process is, and when it is ready, is the business of the service modules.
"""

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from lockstep.errors import ServiceError
from lockstep.host.files import write_private

SAME_START_SECONDS = 10.0
"""psutil derives the creation time from the boot time, which moves when the clock is corrected."""
POLL_SECONDS = 0.05


def run_to_end(
    command: Sequence[str], doing: str, seconds_max: float, **options: object
) -> subprocess.CompletedProcess[str]:
    """Run a program with its output kept as text; raises ServiceError when it takes too long.

    doing: for the error. options: as of subprocess.run.
    """
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=seconds_max, check=False, **options
        )
    except subprocess.TimeoutExpired:
        raise ServiceError(f"{doing} took over {seconds_max} s") from None


@dataclass(frozen=True)
class ProcessRecord:
    """What is known of a started process; `create_time` is in seconds since the epoch."""

    pid: int
    create_time: float

    def process(self) -> psutil.Process | None:
        """The live process, or None when it has ended (an unreaped one has ended, too)."""
        _reap(self.pid)
        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.create_time) < SAME_START_SECONDS
            return process if same and process.status() != psutil.STATUS_ZOMBIE else None
        except psutil.NoSuchProcess:
            return None


def _reap(pid: int) -> None:
    """Collect the exit of a child of ours; of anyone else's child there is nothing to collect."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return


def record_path(home: Path, service: str) -> Path:
    return home / "run" / f"{service}.json"


def read_record(home: Path, service: str) -> ProcessRecord | None:
    """The service's record, or None when it was never started or was stopped on purpose."""
    try:
        return ProcessRecord(**json.loads(record_path(home, service).read_text()))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise ServiceError(
            f"{record_path(home, service)} is damaged ({error}); end {service} by hand if it still "
            "runs, delete the file, then run `lockstep up`"
        ) from error


def forget(home: Path, service: str) -> None:
    """Drop the record: from now on the service counts as stopped on purpose."""
    record_path(home, service).unlink(missing_ok=True)


@dataclass(frozen=True)
class Launch:
    """What to start. Secrets belong into `environment` or files, never into `command`."""

    command: Sequence[str]
    log: Path
    environment: Mapping[str, str]
    working_folder: Path
    user: str | None = None
    """Another user to run as; only root can."""


def start(home: Path, service: str, launch: Launch) -> ProcessRecord:
    """Start a service and record its process before returning. Raises ServiceError.

    Guarantee: what cannot be recorded does not run on, for no command would ever stop it.
    """
    record = spawn(service, launch)
    try:
        write_private(record_path(home, service), json.dumps(asdict(record)))
    except OSError as error:
        kill_session(record)
        raise ServiceError(f"{service}: its process cannot be recorded: {error}") from error
    return record


def spawn(name: str, launch: Launch) -> ProcessRecord:
    """Start a process in a session of its own, and remember it nowhere.

    Raises ServiceError when the program cannot be executed.
    """
    with launch.log.open("ab") as log:
        try:
            child = subprocess.Popen(
                launch.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=dict(launch.environment),
                cwd=launch.working_folder,
                user=launch.user,
                group=launch.user,
                extra_groups=None if launch.user is None else [],
                start_new_session=True,
            )
        except OSError as error:
            raise ServiceError(f"{name}: cannot run {launch.command[0]}: {error}") from error
    child.returncode = 0  # detached on purpose: Popen must not warn that it still runs
    try:
        return ProcessRecord(child.pid, psutil.Process(child.pid).create_time())
    except psutil.NoSuchProcess:
        return ProcessRecord(child.pid, time.time())


def stop(record: ProcessRecord, stop_signal: signal.Signals, deadline_seconds: float) -> bool:
    """Ask the process to end, and kill what is left of its session after the deadline.

    Returns whether it ended by itself. Afterwards nothing of its session runs.
    """
    process = record.process()
    graceful = True
    if process is not None:
        process.send_signal(stop_signal)
        graceful = _ended(record, deadline_seconds)
    kill_session(record)
    return graceful


def _ended(record: ProcessRecord, deadline_seconds: float) -> bool:
    deadline = time.monotonic() + deadline_seconds
    while record.process() is not None:
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def kill_session(record: ProcessRecord) -> None:
    """Kill the process and all that stayed in its session; children that left it live on."""
    members = _session_members(record)
    for member in members:
        try:
            member.kill()
        except psutil.NoSuchProcess:
            continue
    _, alive = psutil.wait_procs(members, timeout=5)
    if alive:
        raise ServiceError(f"processes {[p.pid for p in alive]} do not end even when killed")


def _session_members(record: ProcessRecord) -> list[psutil.Process]:
    """The record's process, leader of a session or not, and all who live in a session it led."""
    members = []
    for process in psutil.process_iter():
        try:
            in_session = record.pid in (process.pid, os.getsid(process.pid))
            younger = process.create_time() > record.create_time - SAME_START_SECONDS
            if in_session and younger and process.status() != psutil.STATUS_ZOMBIE:
                members.append(process)
        except (ProcessLookupError, PermissionError, psutil.Error):
            continue
    return members
