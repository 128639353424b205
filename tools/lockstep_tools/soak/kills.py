"""Kills one thing, as a machine that fails would, and measures how long until all work again."""

import os
import random
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from lockstep.devstack import control
from lockstep.host import process
from lockstep.model.modes import StreamMode
from lockstep.settings import Settings
from lockstep.sources.errors import PostgresUnavailableError

from lockstep_tools.errors import SoakError
from lockstep_tools.soak.catching_up import wait_until_caught_up
from lockstep_tools.soak.drivers import drivers, kill

BACK_SECONDS_MAX = 60.0
"""From the service's return (of a driver: from its end) to all streams having caught up."""
GIVE_UP_SECONDS = 300.0
GONE_SECONDS_MAX = 10.0


class Target(StrEnum):
    """What can be killed: a driver, wholly or one of its processes; a service by its name."""

    DRIVER = "driver"
    PYTHON = "python"
    JVM = "jvm"
    KAFKA = "kafka"
    CONNECT = "connect"
    POSTGRES = "postgres"
    SCHEDULER = "airflow-scheduler"
    TRIGGERER = "airflow-triggerer"


DRIVER_TARGETS = (Target.DRIVER, Target.PYTHON, Target.JVM)
"""DRIVER: at random its Python, its JVM, or both; the others that process alone."""


@dataclass(frozen=True)
class Kill:
    """What was killed, and how long it took until every stream had caught up again."""

    target: Target
    part: str
    returned_seconds: float
    back_seconds: float

    @property
    def was_late(self) -> bool:
        return self.back_seconds > BACK_SECONDS_MAX

    def __str__(self) -> str:
        return (
            f"{self.target} ({self.part}): returned after {self.returned_seconds:.0f} s, all "
            f"caught up {self.back_seconds:.0f} s later"
        )


def kill_and_await(
    settings: Settings, target: Target, modes: Sequence[StreamMode], rng: random.Random
) -> Kill:
    """SIGKILL the target, start it again (a driver is others' to start), await the streams.

    Raises SoakError when there is nothing to kill, or they never come back.
    """
    is_driver = target in DRIVER_TARGETS
    part = _kill_driver(settings, target, rng) if is_driver else _kill_service(settings, target)
    killed = time.monotonic()
    if not is_driver:
        control.up(settings, [*_wanted(settings), target])
    returned = time.monotonic()
    _await(settings, modes)
    return Kill(target, part, returned - killed, time.monotonic() - returned)


def _await(settings: Settings, modes: Sequence[StreamMode]) -> None:
    """PostgreSQL may refuse a connection for a moment after its crash."""
    deadline = time.monotonic() + GIVE_UP_SECONDS
    while True:
        try:
            wait_until_caught_up(settings, modes, max(1.0, deadline - time.monotonic()))
            return
        except PostgresUnavailableError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def _wanted(settings: Settings) -> list[str]:
    """What runs in this home: all of it, since Connect may have ended with Kafka."""
    names = control.service_names()
    return [name for name in names if process.read_record(settings.home, name) is not None]


def _kill_driver(settings: Settings, target: Target, rng: random.Random) -> str:
    found = list(drivers(settings))
    if not found:
        raise SoakError("there is no driver to kill: no stream runs in this home")
    part = rng.choice(("python", "jvm", "both")) if target is Target.DRIVER else target
    kill(rng.choice(found)[0], part)
    return part


def _kill_service(settings: Settings, target: Target) -> str:
    record = process.read_record(settings.home, target)
    if record is None or record.process() is None:
        raise SoakError(f"there is no {target} to kill: it does not run in this home")
    os.kill(record.pid, signal.SIGKILL)
    deadline = time.monotonic() + GONE_SECONDS_MAX
    while record.process() is not None and time.monotonic() < deadline:
        time.sleep(0.02)
    return f"pid {record.pid}"
