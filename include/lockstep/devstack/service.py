"""What every service of the stack is: how it is started, probed and described.

The four steps of a start are here, once: is it there already, launch, wait until a protocol probe
answers, finish. A service module gives the parts; it never waits or reads records itself.
"""

import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import psutil
import psycopg
from confluent_kafka import KafkaException

from lockstep.errors import LockstepError, ServiceError
from lockstep.host import process
from lockstep.host.files import last_lines, log_path
from lockstep.host.ports import Port, require_usable
from lockstep.settings import Settings

PROBE_PAUSE_SECONDS = 0.1
LOG_LINES_IN_ERROR = 15


class State(StrEnum):
    """RUNNING works; DEGRADED answers its protocol, but something inside it does not work;
    CRASHED was started and is gone, without a `lockstep down`."""

    RUNNING = "running"
    DEGRADED = "degraded"
    NOT_ANSWERING = "not answering"
    CRASHED = "crashed"
    STOPPED = "stopped"


@dataclass(frozen=True)
class ServiceStatus:
    """One line of `lockstep status`."""

    service: str
    state: State
    address: str
    pid: int | None = None
    uptime_seconds: float | None = None
    memory_bytes: int | None = None
    problem: str | None = None

    @property
    def wrong(self) -> bool:
        """It was started and does not work."""
        return self.state not in (State.RUNNING, State.STOPPED)


class Service(Protocol):
    """One process of the stack. Every method may be called again at any time."""

    name: str
    needs: tuple[str, ...]
    """Services that must answer before this one is launched."""
    ready_seconds_max: float
    stop_signal: signal.Signals
    stop_seconds_max: float

    def address(self, settings: Settings) -> str:
        """Where it answers, for people; empty when it listens nowhere."""

    def ports(self, settings: Settings) -> Sequence[Port]:
        """All that it listens on; they are checked before it is launched."""

    def launch(self, settings: Settings) -> process.Launch:
        """Write configuration, and say what to start. Called when nothing runs."""

    def problem(self, settings: Settings) -> str | None:
        """Ask once, in the service's own protocol: None when it answers, else why not."""

    def trouble(self, settings: Settings) -> str | None:
        """Of a service that answers: what inside it does not work, and `finish` puts right."""

    def finish(self, settings: Settings) -> None:
        """What has to be in it before others use it. Quick when it is there already."""


class _EndedError(ServiceError):
    """A service's process ended while it was waited for."""


def require_ports(services: Sequence[Service], settings: Settings) -> None:
    """Raise ServiceError that names each port which one of them needs, and cannot have.

    Those that run have theirs.
    """
    records = {one: process.read_record(settings.home, one.name) for one in services}
    stopped = [one for one, found in records.items() if found is None or found.process() is None]
    require_usable(port for one in stopped for port in one.ports(settings))


def bring_up(service: Service, settings: Settings) -> bool:
    """Make the service answer; returns False when it did already. Raises ServiceError."""
    try:
        record = process.read_record(settings.home, service.name)
        launched = not _comes_to_answer(service, settings, record)
        if launched:
            if record is not None:
                process.kill_session(record)
            require_usable(service.ports(settings))
            launch = service.launch(settings)
            record = process.start(settings.home, service.name, launch)
            _wait_until_it_answers(service, settings, record)
        service.finish(settings)
    except (psycopg.OperationalError, KafkaException) as error:
        # What it needs answered, and was lost again meanwhile.
        raise ServiceError(f"{service.name} cannot be started: {str(error).strip()}") from error
    return launched


def _comes_to_answer(
    service: Service, settings: Settings, record: process.ProcessRecord | None
) -> bool:
    """Whether a process that was started before answers; one that loses its database ends late."""
    if record is None or record.process() is None:
        return False
    try:
        _wait_until_it_answers(service, settings, record)
    except _EndedError:
        return False
    return True


def _wait_until_it_answers(
    service: Service, settings: Settings, record: process.ProcessRecord
) -> None:
    """Probe until the service answers, its process dies, or its time is over."""
    started = time.monotonic()
    while True:
        problem = service.problem(settings)
        seconds = time.monotonic() - started
        if record.process() is None:
            raise _EndedError(_with_log(service, settings, f"ended after {seconds:.0f} s"))
        if problem is None:
            return
        if seconds > service.ready_seconds_max:
            silent = f"does not answer after {seconds:.0f} s ({problem})"
            raise ServiceError(_with_log(service, settings, silent))
        time.sleep(PROBE_PAUSE_SECONDS)


def _with_log(service: Service, settings: Settings, what: str) -> str:
    path = log_path(settings.home, service.name)
    lines = "\n".join(last_lines(path, LOG_LINES_IN_ERROR))
    return f"{service.name} {what}; the end of {path}:\n{lines}"


def take_down(service: Service, settings: Settings) -> bool:
    """Stop the service and forget it; returns False when it was not started."""
    record = process.read_record(settings.home, service.name)
    if record is None:
        return False
    process.stop(record, service.stop_signal, service.stop_seconds_max)
    process.forget(settings.home, service.name)
    return True


def status(service: Service, settings: Settings) -> ServiceStatus:
    """Look at the process, then ask the service itself."""
    address = service.address(settings)
    record = process.read_record(settings.home, service.name)
    if record is None:
        return ServiceStatus(service.name, State.STOPPED, address)
    alive = record.process()
    if alive is None:
        gone = f"process {record.pid} is gone; `lockstep up` starts it again"
        return ServiceStatus(service.name, State.CRASHED, address, problem=gone)
    silent = _answer(service.problem, settings)
    trouble = None if silent else _answer(service.trouble, settings)
    return ServiceStatus(
        service.name,
        State.NOT_ANSWERING if silent else State.DEGRADED if trouble else State.RUNNING,
        address,
        pid=record.pid,
        uptime_seconds=max(0.0, time.time() - record.create_time),
        memory_bytes=_memory_bytes(alive),
        problem=silent or trouble,
    )


def _answer(question: Callable[[Settings], str | None], settings: Settings) -> str | None:
    """The answer of one service; that it cannot even be asked is an answer, too."""
    try:
        return question(settings)
    except LockstepError as error:
        return str(error)


def _memory_bytes(alive: psutil.Process) -> int:
    """Memory of the process and its descendants; what they share is divided up, on Linux."""
    total = 0
    for member in (alive, *alive.children(recursive=True)):
        try:
            memory = member.memory_full_info()
            total += getattr(memory, "pss", memory.rss)
        except psutil.Error:
            continue
    return total
