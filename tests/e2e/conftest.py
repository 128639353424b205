"""A stack of the streams' own: they are killed, and their checks want a database without a past."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from lockstep.devstack import control
from lockstep.host.ports import free_ports
from lockstep.model.modes import StreamMode
from lockstep.settings import Settings
from lockstep.supervise import launcher
from lockstep_tools.soak.runner import bench_at_work
from lockstep_tools.soak.scenarios import Bench

from tests.conftest import PORT_SETTINGS, remove_stack
from tests.secret_scan import leaks

PERSON_SECONDS = 20.0
"""That a person needs to read a question."""


def read_as_a_person() -> None:
    """Wait before a question of Airflow's is answered.

    Airflow 3.3 fails a task that is answered while the scheduler has not heard yet that the worker
    which asked has ended: 5 s on a quiet machine, and no interface tells when.
    """
    time.sleep(PERSON_SECONDS)


@contextmanager
def stack_of_its_own(home: Path, services: list[str]) -> Iterator[Settings]:
    """These services in a home of their own, on free ports, removed at the end.

    Before that it is searched for the passwords: what ran there must not have shown any.
    """
    ports = dict(zip(PORT_SETTINGS, free_ports(len(PORT_SETTINGS)), strict=True))
    settings = Settings(home=home, **ports)
    try:
        up = control.up(settings, services)
        yield up
        assert leaks(up) == []
    finally:
        remove_stack(settings)


@pytest.fixture(scope="session")
def streams_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """PostgreSQL, Kafka and Connect in a home of their own."""
    with stack_of_its_own(tmp_path_factory.mktemp("streams"), ["connect"]) as settings:
        yield settings


@pytest.fixture(scope="module")
def bench(streams_stack: Settings) -> Iterator[Bench]:
    """All five modes in one driver, kept running, and their checks from the first version on."""
    try:
        with bench_at_work(streams_stack, tuple(StreamMode)) as bench:
            yield bench
    finally:
        launcher.stop_all(streams_stack, "the tests are over")
