"""A lock of the operating system with its holder's pid inside, for whatever only one may do.

It ends with the last process that has its descriptor, however that ends. What it protects, and how
a refusal reads, is the business of its users: a table's writer, a command, a stream.
"""

import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self, TextIO

from lockstep.errors import LockstepError

POLL_SECONDS = 0.02
PID_WRITTEN_SECONDS_MAX = 1.0
"""A new holder writes its pid microseconds after it took the lock."""

Busy = Callable[[int | None], LockstepError]
"""Makes the error for a lock that another process holds; gets its pid, None if it wrote none."""


class FileLock:
    """A lock that is held; a context manager that releases it."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    @classmethod
    def acquire(
        cls, path: Path, busy: Busy, *, inheritable: bool = False, patience_seconds: float = 0.0
    ) -> Self:
        """Take the lock, or raise what `busy` makes of the holder's pid.

        Inheritable: children that keep our descriptors hold the lock as well. Patience is for locks
        whose holder others ask for: `holder` has the lock to itself for a moment.
        Raises OSError when the file cannot be opened.
        """
        file = path.open("a+", encoding="utf-8")
        if not _locked(file, patience_seconds):
            with file:
                raise busy(_pid_in(file))
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        os.set_inheritable(file.fileno(), inheritable)
        return cls(file)

    def fileno(self) -> int:
        """The descriptor that a child has to keep to hold the lock as well."""
        return self._file.fileno()

    def release(self) -> None:
        """Give the lock up, even if a living child has inherited it. May be called again.

        The pid stays in the file: it is read only while the lock is held.
        """
        if not self._file.closed:
            fcntl.flock(self._file, fcntl.LOCK_UN)
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def holder(path: Path) -> int | None:
    """The pid of the process that took the lock, which may have left it to a child; None if free.

    Raises LockstepError when the lock is held and no pid is in it.
    """
    deadline = time.monotonic() + PID_WRITTEN_SECONDS_MAX
    while True:
        try:
            file = path.open(encoding="utf-8")
        except FileNotFoundError:
            return None
        with file:
            if _locked(file, 0.0, fcntl.LOCK_SH):
                return None
            pid = _pid_in(file)
        if pid is not None:
            return pid
        if time.monotonic() > deadline:
            raise LockstepError(
                f"{path} is locked by a process that is not named in it; `fuser {path}` finds it"
            )
        time.sleep(POLL_SECONDS)


def _locked(file: TextIO, patience_seconds: float, operation: int = fcntl.LOCK_EX) -> bool:
    deadline = time.monotonic() + patience_seconds
    while True:
        try:
            fcntl.flock(file, operation | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(POLL_SECONDS)
        else:
            return True


def _pid_in(file: TextIO) -> int | None:
    file.seek(0)
    text = file.read().strip()
    return int(text) if text.isdigit() else None
