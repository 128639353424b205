"""The right to run a mode, or to be a source's driver: held by one process, ended with its last.

The JVM keeps the descriptor (`pass_fds`), so that a mode is free only when it, too, has ended.
"""

from collections.abc import Iterable
from pathlib import Path

from lockstep import file_lock
from lockstep.errors import StreamError
from lockstep.file_lock import FileLock
from lockstep.host.files import make_private_folder
from lockstep.settings import Settings
from lockstep.supervise.errors import StreamBusyError
from lockstep.supervise.folder import driver_folder, folder_of_before, mode_folder

Lease = FileLock
"""`release()` frees the mode although the JVM lives; `fileno()` is what the JVM has to inherit."""

LEASE = "lease.lock"
START = "start.lock"
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


def require_free(settings: Settings, modes: Iterable[str]) -> None:
    """Raise StreamBusyError for the first of the modes that a process runs."""
    for mode in modes:
        if (pid := holder(settings, mode)) is not None:
            raise StreamBusyError(mode, pid)


def acquire_source(settings: Settings, mode: str) -> Lease:
    """Become the driver of the source, which others of its streams join. Raises StreamBusyError.

    mode: for which it is asked.
    """
    return _acquire(driver_folder(settings, settings.names.source) / LEASE, mode)


def source_holder(settings: Settings) -> int | None:
    """The pid of the source's driver, None when there is none; may have ended, as `holder`'s."""
    return file_lock.holder(driver_folder(settings, settings.names.source) / LEASE)


def acquire_start(settings: Settings, mode: str, patience_seconds: float) -> Lease:
    """The right to start a driver of the source; waits for it. Raises StreamBusyError."""
    path = driver_folder(settings, settings.names.source) / START
    return _acquire(path, mode, patience_seconds=patience_seconds, inheritable=False)


def _acquire(
    path: Path,
    mode: str,
    patience_seconds: float = PATIENCE_SECONDS,
    *,
    inheritable: bool = True,
) -> Lease:
    try:
        make_private_folder(path.parent)
        return FileLock.acquire(
            path,
            lambda pid: StreamBusyError(mode, pid),
            inheritable=inheritable,
            patience_seconds=patience_seconds,
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
