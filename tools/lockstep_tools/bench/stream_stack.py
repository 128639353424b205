"""A stack of the benchmarks' own for streams: PostgreSQL, Kafka and Connect, new each time.

It lies in HOME/bench-streams, on ports of its own, so that the user's data and stack are left
alone. It is stopped at the end and stays to be looked at; the next benchmark removes it.
"""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from lockstep.devstack import control, postgres_files
from lockstep.host.ports import free_ports
from lockstep.settings import Settings
from lockstep.supervise import launcher

FOLDER = "bench-streams"
REASON = "a benchmark"
PORTS = ("postgres_port", "kafka_port", "kafka_controller_port", "connect_port")


@contextmanager
def stream_stack(settings: Settings, services: Sequence[str] = ("connect",)) -> Iterator[Settings]:
    """Settings of a stack with an empty pizzeria and no stream yet, these services running.

    Streams that were started in it are stopped at the end of the block, and the services after
    them, whatever happens in it.
    """
    ports = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))
    own = Settings(
        home=settings.home / FOLDER,
        jars_dir=settings.jars_dir,
        lakehouse="",
        postgres_host="127.0.0.1",
        kafka_host="127.0.0.1",
        connect_host="127.0.0.1",
        # What was written in the run is read at its end, from the tables' files.
        stream_versions_kept_hours=24,
        stream_versions_max=1_000_000,
        **ports,
    )
    _remove(own)
    try:
        yield control.up(own, services)
    finally:
        _stop(own)


def _stop(own: Settings) -> None:
    launcher.stop_all(own, REASON)
    control.down(own)


def _remove(own: Settings) -> None:
    """Stop what an interrupted benchmark left running, and remove all its files."""
    if not own.home.exists():
        return
    _stop(own)
    postgres_files.remove(own)
    shutil.rmtree(own.home)
