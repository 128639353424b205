"""A process is known by its pid and its creation, stopped gracefully, killed at its deadline."""

import os
import signal
import sys
import time
from pathlib import Path

import psutil
import pytest
from lockstep.errors import ServiceError
from lockstep.host import process

DEADLINE_SECONDS = 10

SLEEPS = "import time; print('up', flush=True); time.sleep(60)"
IGNORES_TERM = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEPS}"
HAS_CHILDREN = f"""
import subprocess, sys
for alone in (False, True):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"],
                             start_new_session=alone)
    print(child.pid, flush=True)
{SLEEPS}
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    return tmp_path


def start(home: Path, program: str) -> process.ProcessRecord:
    """Start a Python program and wait until it has said that it is up."""
    log = home / "test.log"
    launch = process.Launch([sys.executable, "-c", program], log, os.environ, home)
    record = process.start(home, "test", launch)
    deadline = time.monotonic() + DEADLINE_SECONDS
    while "up" not in log.read_text():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.02)
    return record


def test_a_started_process_is_found_again_from_its_record(home: Path) -> None:
    started = start(home, SLEEPS)
    found = process.read_record(home, "test")
    assert found == started
    assert found.process().pid == started.pid
    assert process.stop(found, signal.SIGTERM, DEADLINE_SECONDS)
    assert found.process() is None


def test_another_process_with_the_same_pid_is_not_taken_for_it() -> None:
    mine = psutil.Process()
    assert process.ProcessRecord(mine.pid, mine.create_time()).process() is not None
    assert process.ProcessRecord(mine.pid, mine.create_time() - 60).process() is None


def test_a_killed_child_that_was_not_waited_for_has_ended(home: Path) -> None:
    record = start(home, SLEEPS)
    os.kill(record.pid, signal.SIGKILL)
    deadline = time.monotonic() + DEADLINE_SECONDS
    while record.process() is not None:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_process_that_ignores_the_signal_is_killed_at_the_deadline(home: Path) -> None:
    record = start(home, IGNORES_TERM)
    assert not process.stop(record, signal.SIGTERM, 0.3)
    assert record.process() is None


def test_stopping_takes_the_session_along_and_nothing_else(home: Path) -> None:
    record = start(home, HAS_CHILDREN)
    same_session, own_session = (
        psutil.Process(int(line)) for line in (home / "test.log").read_text().split()[:2]
    )
    try:
        process.stop(record, signal.SIGTERM, DEADLINE_SECONDS)
        psutil.wait_procs([same_session], timeout=DEADLINE_SECONDS)
        assert not same_session.is_running() or same_session.status() == psutil.STATUS_ZOMBIE
        assert own_session.is_running()
    finally:
        own_session.kill()


def test_what_cannot_be_recorded_does_not_run(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spawned: list[process.ProcessRecord] = []

    def full_disk(_path: Path, _text: str) -> None:
        raise OSError(28, "No space left on device")

    spawn = process.spawn
    monkeypatch.setattr(
        process, "spawn", lambda *given: spawned.append(spawn(*given)) or spawned[0]
    )
    monkeypatch.setattr(process, "write_private", full_disk)
    with pytest.raises(ServiceError, match=r"cannot be recorded.*No space left"):
        start(home, SLEEPS)
    assert spawned[0].process() is None


def test_a_damaged_record_is_named(home: Path) -> None:
    process.record_path(home, "test").write_text("{")
    with pytest.raises(ServiceError, match=r"test\.json is damaged"):
        process.read_record(home, "test")


def test_a_program_that_does_not_exist_is_named(home: Path) -> None:
    launch = process.Launch(["/no/such/program"], home / "test.log", {}, home)
    with pytest.raises(ServiceError, match="cannot run /no/such/program"):
        process.start(home, "test", launch)
    assert process.read_record(home, "test") is None
