"""One holder at a time, named by its pid; a child that inherited the lock holds it as well."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from lockstep.errors import LockstepError, ServiceError
from lockstep.file_lock import FileLock, holder

DEADLINE_SECONDS = 10
ASKS = """
import sys
from pathlib import Path
from lockstep.file_lock import holder
print("up", flush=True)
while True:
    holder(Path(sys.argv[1]))
"""
SLEEPS = "import time; time.sleep(60)"
HOLDS = f"""
import sys, subprocess
from pathlib import Path
from lockstep.file_lock import FileLock
lock = FileLock.acquire(Path(sys.argv[1]), lambda pid: ValueError(pid), inheritable=True)
if sys.argv[2] == "child":
    child = subprocess.Popen([sys.executable, "-c", "{SLEEPS}"], pass_fds=[lock.fileno()])
    print(child.pid, flush=True)
print("held", flush=True)
{SLEEPS}
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lock"


@pytest.fixture
def started() -> Iterator[list[int]]:
    """Pids of processes to end after the test."""
    pids: list[int] = []
    yield pids
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def hold_elsewhere(path: Path, started: list[int], kind: str = "alone") -> subprocess.Popen[str]:
    """Another process that holds the lock; with kind "child" its child does as well."""
    other = subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(path), kind], stdout=subprocess.PIPE, text=True
    )
    started.append(other.pid)
    while (line := other.stdout.readline().strip()) != "held":
        assert line, "the process ended"
        started.append(int(line))
    return other


def busy(pid: int | None) -> LockstepError:
    return ServiceError(f"held by {pid}")


def acquire(path: Path, patience_seconds: float = 0.0) -> FileLock:
    return FileLock.acquire(path, busy, patience_seconds=patience_seconds)


def wait_until_free(path: Path) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while holder(path) is not None:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_second_holder_is_refused_with_the_pid_of_the_first(path, started) -> None:
    other = hold_elsewhere(path, started)
    with pytest.raises(ServiceError, match=f"^held by {other.pid}$"):
        acquire(path)
    assert holder(path) == other.pid


def test_the_same_process_is_refused_as_well(path) -> None:
    with acquire(path), pytest.raises(ServiceError, match=f"held by {os.getpid()}"):
        acquire(path)
    acquire(path).release()


def test_a_killed_holder_leaves_the_lock_free(path, started) -> None:
    other = hold_elsewhere(path, started)
    other.kill()
    other.wait()
    assert holder(path) is None
    with acquire(path):
        assert holder(path) == os.getpid()


def test_a_child_that_inherited_the_lock_holds_it_after_its_parent(path, started) -> None:
    other = hold_elsewhere(path, started, "child")
    other.kill()
    other.wait()
    assert holder(path) == other.pid
    with pytest.raises(ServiceError, match=f"held by {other.pid}"):
        acquire(path)
    os.kill(started[-1], signal.SIGKILL)
    wait_until_free(path)


def test_release_frees_the_lock_although_a_living_child_inherited_it(path, started) -> None:
    lock = FileLock.acquire(path, busy, inheritable=True)
    child = subprocess.Popen([sys.executable, "-c", SLEEPS], pass_fds=[lock.fileno()])
    started.append(child.pid)
    lock.release()
    lock.release()
    assert holder(path) is None
    assert child.poll() is None
    child.kill()
    child.wait()


def test_a_lock_that_is_not_inheritable_stays_with_its_process(path, started) -> None:
    lock = acquire(path)
    child = subprocess.Popen([sys.executable, "-c", SLEEPS], close_fds=False)
    started.append(child.pid)
    lock._file.close()  # without unlocking, as a kill would
    deadline = time.monotonic() + 10  # the kernel closes the child's copy a moment after its start
    while holder(path) is not None:
        assert time.monotonic() < deadline
    assert child.poll() is None
    child.kill()
    child.wait()


def test_who_asks_for_the_holder_does_not_refuse_a_patient_start(path) -> None:
    path.touch()
    asker = subprocess.Popen([sys.executable, "-c", ASKS, str(path)], stdout=subprocess.PIPE)
    try:
        asker.stdout.readline()
        for _ in range(200):
            acquire(path, patience_seconds=2.0).release()
    finally:
        asker.kill()
        asker.wait()


def test_what_was_not_locked_is_not_held(path) -> None:
    assert holder(path) is None
    path.write_text("4711")
    assert holder(path) is None


def test_a_holder_without_a_name_is_an_error(path, monkeypatch) -> None:
    monkeypatch.setattr("lockstep.file_lock.PID_WRITTEN_SECONDS_MAX", 0.05)
    with acquire(path):
        path.write_text("")
        with pytest.raises(LockstepError, match="not named in it"):
            holder(path)
