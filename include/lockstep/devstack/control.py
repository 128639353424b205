"""Starts, stops and describes the stack: which services, in which order, one command at a time.

A service is started as soon as those it needs answer, so that what is independent starts side by
side. How a single service starts is in service.py and its own module.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from lockstep.devstack import airflow, service
from lockstep.devstack.connect import Connect
from lockstep.devstack.kafka import Kafka
from lockstep.devstack.metrics import Metrics
from lockstep.devstack.postgres import Postgres
from lockstep.devstack.secrets import with_secrets
from lockstep.errors import ServiceError
from lockstep.file_lock import FileLock
from lockstep.host.files import make_private_folder
from lockstep.settings import Settings

SERVICES: tuple[service.Service, ...] = (
    Postgres(),
    Kafka(),
    Connect(),
    Metrics(),
    *airflow.COMPONENTS,
)
"""In start order: a service stands after all that it needs."""
GROUPS: dict[str, tuple[str, ...]] = {"airflow": tuple(one.name for one in airflow.COMPONENTS)}
"""Names for several services at once."""


@dataclass(frozen=True)
class Outcome:
    """What `up` or `down` did to one service; `acted` is False when there was nothing to do."""

    service: str
    address: str
    acted: bool
    seconds: float


Progress = Callable[[Outcome], None]


def up(settings: Settings, only: Sequence[str] = (), progress: Progress | None = None) -> Settings:
    """Start what does not run, of the named services and what they need, or of all.

    Returns the settings with the secrets that now exist. Raises ServiceError naming each service
    that did not start; the others stay up. Where a port is not free, none is started.
    """
    chosen = _chosen(settings, only)
    with _only_command(settings):
        wanted = _with_needs(chosen | _stop_what_knows_no_password(settings))
        service.require_ports(wanted, settings)
        settings = with_secrets(settings)
        _each(
            wanted,
            lambda one: one.needs,
            lambda one: service.bring_up(one, settings),
            settings,
            progress,
        )
    return settings


def down(settings: Settings, progress: Progress | None = None) -> None:
    """Stop everything, each service after those that need it. Raises ServiceError."""
    if not settings.home.exists():
        return
    with _only_command(settings):
        _each(
            tuple(reversed(SERVICES)),
            lambda one: tuple(other.name for other in SERVICES if one.name in other.needs),
            lambda one: service.take_down(one, settings),
            settings,
            progress,
        )


def statuses(settings: Settings) -> list[service.ServiceStatus]:
    """The status of every service, in start order; all are asked at the same time."""
    with ThreadPoolExecutor(len(SERVICES)) as pool:
        return list(pool.map(lambda one: service.status(one, settings), SERVICES))


def service_names() -> list[str]:
    return [one.name for one in SERVICES]


def _stop_what_knows_no_password(settings: Settings) -> set[str]:
    """Stop a Kafka and a Connect that were started without these passwords; returns their names.

    Before the passwords are stored, so that an `up` that is killed meanwhile does it again.
    """
    known = (settings.kafka_password, settings.kafka_reader_password, settings.connect_password)
    if None not in known:
        return set()
    older = [one for one in reversed(SERVICES) if one.name in (Kafka.name, Connect.name)]
    return {one.name for one in older if service.take_down(one, settings)}


def _chosen(settings: Settings, only: Sequence[str]) -> set[str]:
    """The names asked for, groups resolved; all that are switched on when none is.

    Raises ServiceError.
    """
    names = {name for asked in only for name in GROUPS.get(asked, (asked,))}
    unknown = names - set(service_names())
    if unknown:
        known = ", ".join((*service_names(), *GROUPS))
        raise ServiceError(f"there is no service {', '.join(sorted(unknown))}; there are: {known}")
    switched_off = () if settings.metrics_port else (Metrics.name,)
    return names or set(service_names()).difference(switched_off)


def _with_needs(names: set[str]) -> tuple[service.Service, ...]:
    """The services of these names and all that they need, in start order."""
    for one in reversed(SERVICES):
        if one.name in names:
            names = names | set(one.needs)
    return tuple(one for one in SERVICES if one.name in names)


def _only_command(settings: Settings) -> FileLock:
    """Hold the home's lock: one `up` or `down` at a time, ended with its process at the latest."""
    try:
        make_private_folder(settings.home)
        return FileLock.acquire(
            make_private_folder(settings.home / "run") / "lock",
            lambda pid: ServiceError(
                f"another `lockstep up` or `down` (pid {pid or 'unknown'}) is at work on "
                f"{settings.home}: wait until it has ended"
            ),
        )
    except OSError as error:
        raise ServiceError(
            f"the home {settings.home} cannot be written: {error}; set LOCKSTEP_HOME to a folder "
            "of yours"
        ) from error


def _each(
    services: Sequence[service.Service],
    after: Callable[[service.Service], tuple[str, ...]],
    action: Callable[[service.Service], bool],
    settings: Settings,
    progress: Progress | None,
) -> None:
    """Act on every service, in threads, each once those of `after` are done.

    The services come ordered by `after`. One that fails takes those after it along; all others
    are still acted upon, then ServiceError names every failure.
    """
    futures: dict[str, Future[None]] = {}

    def act(one: service.Service) -> None:
        for name in after(one):
            if name in futures:
                _wait_for(futures[name], name)
        started = time.monotonic()
        acted = action(one)
        if progress is not None:
            seconds = time.monotonic() - started
            progress(Outcome(one.name, one.address(settings), acted, seconds))

    pool = ThreadPoolExecutor(max(1, len(services)))
    try:
        for one in services:
            futures[one.name] = pool.submit(act, one)
        wait(futures.values())
    finally:  # Ctrl-C does not wait for the deadline of every service
        pool.shutdown(wait=False, cancel_futures=True)
    failures = [error for future in futures.values() if (error := future.exception())]
    reported = [error for error in failures if not isinstance(error, _NeededFailedError)]
    for error in reported:
        if not isinstance(error, ServiceError):
            raise error
    if reported:
        raise ServiceError("\n".join(str(error) for error in reported))


class _NeededFailedError(ServiceError):
    """A service was left alone because one that it waits for failed: that one is reported."""


def _wait_for(needed: Future[None], name: str) -> None:
    if needed.exception() is not None:
        raise _NeededFailedError(f"{name} failed")
