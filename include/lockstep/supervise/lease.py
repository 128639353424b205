"""The right to run a mode: held by one driver, ended with its last process.

The JVM keeps the descriptor (`pass_fds`), so that a mode is free only when it, too, has ended.
"""

from pathlib import Path

from lockstep import file_lock
from lockstep.errors import StreamError
from lockstep.file_lock import FileLock
from lockstep.host.files import make_private_folder
from lockstep.settings import Settings
from lockstep.supervise.errors import StreamBusyError
from lockstep.supervise.folder import folder_of_before, mode_folder

Lease = FileLock
"""`release()` frees the mode although the JVM lives; `fileno()` is what the JVM has to inherit."""

LEASE = "lease.lock"
PATIENCE_SECONDS = 0.5
"""Who asks for the holder has the lock for microseconds; that must not refuse a start."""


def lease_path(settings: Settings, mode: str) -> Path:
    return mode_folder(settings, mode) / LEASE


def acquire(settings: Settings, mode: str) -> Lease:
    """Take the mode. Raises StreamBusyError, naming the pid, when another process runs it."""
    return _acquire(lease_path(settings, mode), mode)


def acquire_of_before(settings: Settings, mode: str) -> Lease:
    """The same of the lease that earlier versions' drivers take."""
    return _acquire(folder_of_before(settings, mode) / LEASE, mode)


def _acquire(path: Path, mode: str) -> Lease:
    try:
        make_private_folder(path.parent)
        return FileLock.acquire(
            path,
            lambda pid: StreamBusyError(mode, pid),
            inheritable=True,
            patience_seconds=PATIENCE_SECONDS,
        )
    except OSError as error:
        raise StreamError(
            f"the lease {path} cannot be opened ({error.strerror}); give this user the rights to "
            "the folder, or set LOCKSTEP_HOME to one of yours"
        ) from error


def holder(settings: Settings, mode: str) -> int | None:
    """The pid of the driver that took the mode, None when it is free.

    The pid may be of a process that has ended and left the lease to its JVM.
    """
    return file_lock.holder(lease_path(settings, mode))
