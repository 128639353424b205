"""Installs Flink for the benchmark: a virtual environment and jars of its own, pinned by hashes.

They lie in HOME/bench-flink and are kept for the next time. Nothing of them enters the project's
own environment or its lists of packages.
"""

import hashlib
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lockstep.errors import LockstepError
from lockstep.file_lock import FileLock
from lockstep.host.files import make_private_folder
from lockstep.host.process import run_to_end
from lockstep.jars import ivy
from lockstep.jars.lock import LockedJar, read_lock, sha256_of
from lockstep.jvm.java import java_version
from lockstep.settings import holds_password

from lockstep_tools.errors import MeasurementError

FOLDER = "bench-flink"
REQUIREMENTS = Path(__file__).with_name("flink-requirements.txt")
"""PyFlink and all that it needs, each with its hashes. Compiled from flink-requirements.in."""
MANIFEST = Path(__file__).with_name("ivy.xml")
LOCK_FILE = Path(__file__).with_name("jars.sha256")
KAFKA_CONNECTOR = "flink-sql-connector-kafka-"
INSTALL_SECONDS_MAX = 1800.0
"""PyFlink's jars alone are 250 MB, which a slow network takes long for."""
LINES_OF_PIP = 3


@dataclass(frozen=True)
class Flink:
    """What is installed: the Python of its environment, and the jars that jobs name."""

    python: Path
    jars: list[Path]

    @property
    def kafka_jars(self) -> list[Path]:
        """Those of a job that reads and writes Kafka alone."""
        return [jar for jar in self.jars if jar.name.startswith(KAFKA_CONNECTOR)]


def install(home: Path, on_progress: Callable[[str], None]) -> Flink:
    """Install what is missing, and return where it is.

    Raises MeasurementError when something cannot be downloaded, is not what was locked, or there is
    no Java, and when another process installs it now.
    """
    folder = make_private_folder(home / FOLDER)
    try:
        java_version()
        with FileLock.acquire(folder / ".lock", _busy) as held:
            python = _environment(folder / "venv", on_progress)
            return Flink(python, _jars(folder / "jars", held.fileno(), on_progress))
    except (LockstepError, OSError) as error:
        raise MeasurementError(f"Flink cannot be installed in {folder}: {error}") from error


def _busy(pid: int | None) -> LockstepError:
    return MeasurementError(f"another process (pid {pid}) installs it; wait until it has ended")


def _environment(venv: Path, on_progress: Callable[[str], None]) -> Path:
    """The Python of the environment; it is made again when the list of packages has changed."""
    python, stamp = venv / "bin" / "python", venv / "made-from"
    wanted = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()
    if python.exists() and stamp.exists() and stamp.read_text(encoding="ascii") == wanted:
        return python
    on_progress("installing PyFlink in an environment of its own (some minutes, 1 GB)")
    _run([sys.executable, "-m", "venv", "--clear", str(venv)], "making an environment")
    packages = ["install", "--no-input", "--require-hashes", "-r", str(REQUIREMENTS)]
    _run([str(python), "-m", "pip", *packages], "installing PyFlink")
    stamp.write_text(wanted, encoding="ascii")
    return python


def _run(command: list[str], doing: str) -> None:
    environment = {name: text for name, text in os.environ.items() if not holds_password(name)}
    done = run_to_end(command, doing, INSTALL_SECONDS_MAX, env=environment)
    if done.returncode:
        reasons = done.stderr.strip().splitlines()[-LINES_OF_PIP:]
        raise MeasurementError(f"{doing} failed: {' | '.join(reasons)}; check the network")


def _jars(folder: Path, held: int, on_progress: Callable[[str], None]) -> list[Path]:
    """The locked jars, each with its hash checked; what is missing or damaged is downloaded."""
    locked = read_lock(LOCK_FILE)
    if any(_problem(folder, jar) for jar in locked):
        on_progress("downloading Flink's connectors (110 MB)")
        cache = folder.with_name("ivy-cache")
        try:
            ivy.retrieve(MANIFEST, cache, folder, lambda _line: None, held)
        finally:
            shutil.rmtree(cache, ignore_errors=True)
    if problems := [text for jar in locked if (text := _problem(folder, jar))]:
        raise MeasurementError(f"{', '.join(problems)}: nothing of it was used")
    return [folder / jar.path for jar in locked]


def _problem(folder: Path, jar: LockedJar) -> str | None:
    """Why the jar cannot be used, its contents included; None if it can."""
    if problem := jar.problem_below(folder):
        return problem
    found = sha256_of(folder / jar.path)
    return None if found == jar.sha256 else f"{jar.path} has SHA-256 {found}, not {jar.sha256}"
