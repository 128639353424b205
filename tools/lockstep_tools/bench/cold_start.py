"""`lockstep bench cold-start`: drivers that start from the archive of Spark's classes, and without.

Each start is a process of its own; both ways take turns, so that a noisy machine troubles them
alike, after one round that fills the file system's cache. What is measured is the session, and the
first Delta table written and read.
"""

import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from lockstep.errors import ServiceError, exit_on_error
from lockstep.host.process import run_to_end
from lockstep.jars import own_jar
from lockstep.settings import Settings
from lockstep.spark import class_archive, spark_session, stream_session

STREAMS, HOURLY = "streams", "hourly job"
SECONDS_MAX = 180


@dataclass
class Measured:
    """Seconds of each start, by driver and by whether it had the archive: session, first table."""

    seconds: dict[tuple[str, bool], list[tuple[float, float]]] = field(default_factory=dict)

    def medians(self, driver: str, archived: bool) -> tuple[float, float]:
        sessions, tables = zip(*self.seconds[driver, archived], strict=True)
        return statistics.median(sessions), statistics.median(tables)


def measure(settings: Settings, rounds: int, on_progress: Callable[[str], None]) -> Measured:
    """Raises ServiceError when there is no archive, or a driver does not start."""
    if not class_archive(settings).exists():
        raise ServiceError(f"{class_archive(settings)} is not there: `make setup` says why")
    measured = Measured()
    with tempfile.TemporaryDirectory() as folder:
        bare = _without_archive(settings, Path(folder) / "jars")
        for number in range(rounds + 1):
            on_progress("warming up" if number == 0 else f"round {number} of {rounds}")
            for driver in (STREAMS, HOURLY):
                for one in (settings, bare):
                    seconds = _start(driver, one, Path(folder) / "home")
                    if number:
                        measured.seconds.setdefault((driver, one is settings), []).append(seconds)
    return measured


def _without_archive(settings: Settings, jars_dir: Path) -> Settings:
    """The same jars, in a folder without an archive."""
    bare = settings.model_copy(update={"jars_dir": jars_dir})
    own_jar(bare).parent.mkdir(parents=True)
    shutil.copy(own_jar(settings), own_jar(bare))
    (jars_dir / "spark").symlink_to(settings.jars_dir / "spark")
    return bare


def _start(driver: str, settings: Settings, home: Path) -> tuple[float, float]:
    shutil.rmtree(home, ignore_errors=True)
    command = [sys.executable, "-m", __name__, driver, str(settings.jars_dir), str(home)]
    done = run_to_end(command, f"the start of a driver ({driver})", SECONDS_MAX)
    if done.returncode != 0:
        raise ServiceError(f"a driver ({driver}) did not start: {done.stderr.strip()}")
    session, table = json.loads(done.stdout.splitlines()[-1])
    return session, table


def main(driver: str, jars_dir: str, home: str) -> None:
    """One start, in this process; prints its seconds as JSON."""
    settings = Settings(home=Path(home), jars_dir=Path(jars_dir), spark_master="local[2]")
    began = time.monotonic()
    start = stream_session if driver == STREAMS else spark_session
    spark = start(settings, "lockstep bench cold-start")
    started = time.monotonic()
    table = str(settings.home / "table")
    spark.range(1_000).write.format("delta").save(table)
    spark.read.format("delta").load(table).toArrow()
    sys.stdout.write(json.dumps([started - began, time.monotonic() - started]) + "\n")
    spark.stop()


if __name__ == "__main__":
    with exit_on_error():
        main(*sys.argv[1:])
