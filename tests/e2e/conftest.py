"""A stack of the streams' own: they are killed, and their checks want a database without a past."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from lockstep.contracts import StreamMode
from lockstep.settings import Settings
from lockstep.soak.checks import Checks
from lockstep.soak.drivers import DoublesWatch
from lockstep.soak.guard import Guard
from lockstep.soak.scenarios import Bench
from lockstep.stack import control, postgres_files
from lockstep.supervise import launcher

from tests.conftest import PORT_SETTINGS, free_ports


@contextmanager
def stack_of_its_own(home: Path, services: list[str]) -> Iterator[Settings]:
    """These services in a home of their own, on free ports, removed at the end."""
    ports = dict(zip(PORT_SETTINGS, free_ports(len(PORT_SETTINGS)), strict=True))
    settings = Settings(home=home, **ports)
    try:
        yield control.up(settings, services)
    finally:
        control.down(settings)
        folder: Path = postgres_files.folder(settings)
        if folder.parent == postgres_files.ROOT_FOLDER:
            shutil.rmtree(folder)


@pytest.fixture(scope="session")
def streams_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """PostgreSQL, Kafka and Connect in a home of their own."""
    with stack_of_its_own(tmp_path_factory.mktemp("streams"), ["connect"]) as settings:
        yield settings


@pytest.fixture(scope="module")
def bench(streams_stack: Settings) -> Iterator[Bench]:
    """All five modes in one driver, kept running, and their checks from the first version on."""
    modes = tuple(StreamMode)
    guard, watch = Guard(streams_stack, modes), DoublesWatch(streams_stack)
    guard.begin()
    watch.start()
    try:
        yield Bench(streams_stack, modes, Checks.of(streams_stack, modes), guard, watch)
    finally:
        guard.stop()
        watch.stop()
        launcher.stop_all(streams_stack, "the tests are over")
