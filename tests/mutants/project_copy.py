"""A copy of the project in a temporary folder, in which tests run against a changed library."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.catalog import LIBRARY, PROJECT

COPIED = (LIBRARY, "tests", "pyproject.toml")
"""The rest is linked: tests read it, and write to none of it."""
NOT_NEEDED = {".git", ".lockstep", ".pytest_cache", ".ruff_cache", "__pycache__"}
PYTEST_ARGUMENTS = ("-p", "tests.mutants.own_library", "-p", "no:cacheprovider", "-q", "--tb=no")
TESTS_PASSED, TESTS_FAILED = 0, 1
"""Exit codes of pytest; with any other one it has not run the tests, or not all of them."""
RED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)
LAST_LINES = 12
STOPPING_SECONDS_MAX = 60.0
"""For the services that an interrupted test has started."""


@dataclass(frozen=True)
class Outcome:
    """red: node ids of the tests that failed. has_run: whether pytest ran all that was asked for.

    output: pytest's last lines.
    """

    red: Sequence[str]
    has_run: bool
    output: str
    seconds: float


def copy_project(folder: Path) -> Path:
    """Copy the library and the tests into the folder, and link what else the project has."""
    for entry in PROJECT.iterdir():
        if entry.name in NOT_NEEDED:
            continue
        if entry.name not in COPIED:
            (folder / entry.name).symlink_to(entry)
        elif entry.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(entry, folder / entry.name, ignore=ignored)
        else:
            shutil.copy(entry, folder)
    return folder


def run_tests(project: Path, tests: Collection[str], seconds_max: float) -> Outcome:
    """Run tests of a copy with the copy's own library, in a process group of their own."""
    started = time.monotonic()
    pytest = subprocess.Popen(
        [sys.executable, "-m", "pytest", *PYTEST_ARGUMENTS, *tests],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(project / LIBRARY), "COLUMNS": "400"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = pytest.communicate(timeout=seconds_max)
    except subprocess.TimeoutExpired:
        output = f"{_ended(pytest)}\nended after {seconds_max:.0f} s"
    return Outcome(
        red=RED.findall(output),
        has_run=pytest.returncode in (TESTS_PASSED, TESTS_FAILED),
        output="\n".join(output.strip().splitlines()[-LAST_LINES:]),
        seconds=time.monotonic() - started,
    )


def _ended(pytest: subprocess.Popen) -> str:
    """Interrupt it, so that it stops the services that its tests have started; returns its output.

    What does not end by that is killed.
    """
    pytest.send_signal(signal.SIGINT)
    try:
        return pytest.communicate(timeout=STOPPING_SECONDS_MAX)[0]
    except subprocess.TimeoutExpired:
        os.killpg(pytest.pid, signal.SIGKILL)
        return pytest.communicate()[0]
