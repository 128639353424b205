"""What a local lakehouse folder needs before a run writes to it: one writer, rights and room.

Tables on an object store have none of these: their commits are atomic there by other means.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lockstep.errors import LakehouseError, WriterBusyError
from lockstep.file_lock import FileLock
from lockstep.settings import Settings
from lockstep.sinks.table_of_before import require_moved

MIB = 1024**2


@contextmanager
def sole_writer(settings: Settings, table: str, patience_seconds: float = 0.0) -> Iterator[None]:
    """Hold the table's writer lock for the block; it ends with the process, however that ends.

    On a local file system two processes that commit at the same moment can both believe that they
    won, so a second writer is refused.

    Raises WriterBusyError when another process still holds the lock after so many seconds of
    patience, LakehouseError when the folder cannot be written or has less than
    settings.min_free_bytes left, and while an earlier version's table is not moved.
    """
    require_writable(settings)
    require_moved(local_folder(settings.lakehouse_uri), table)
    folder = local_folder(settings.table_uri(table))
    if folder is None:
        yield
        return
    with writer_lock(folder, patience_seconds):
        yield


def require_writable(settings: Settings) -> None:
    """Raise LakehouseError when a local lakehouse refuses a file or lacks room for a run."""
    folder = local_folder(settings.lakehouse_uri)
    if folder is None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"\0")
    except OSError as error:
        raise LakehouseError(
            f"the lakehouse folder {folder} cannot be written ({error.strerror}); "
            "give this user the rights, or set LOCKSTEP_LAKEHOUSE to another place"
        ) from error
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes < settings.min_free_bytes:
        raise LakehouseError(
            f"only {free_bytes / MIB:,.0f} MiB are free at {folder}, under the "
            f"{settings.min_free_bytes / MIB:,.0f} MiB that a run asks for "
            "(LOCKSTEP_MIN_FREE_BYTES); make room, then run again"
        )


def writer_lock(folder: Path, patience_seconds: float) -> FileLock:
    """The writer's lock of a table's folder alone, for work that makes room instead of taking it.

    Raises WriterBusyError and LakehouseError, as sole_writer does.
    """
    # Next to the table, not in it: a new, still empty table folder is no Delta table.
    path = folder.with_name(f".{folder.name}.writer.lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return FileLock.acquire(
            path,
            lambda pid: WriterBusyError(
                f"another process (pid {pid or 'unknown'}) is writing {folder}; wait for it, or "
                "stop it, then run again"
            ),
            patience_seconds=patience_seconds,
        )
    except OSError as error:
        raise LakehouseError(
            f"the writer's lock {path} cannot be opened ({error.strerror}); give this user the "
            "rights to the folder and the file"
        ) from error


def local_folder(uri: str) -> Path | None:
    """The folder of a lakehouse or a table; None on an object store."""
    return None if "://" in uri else Path(uri)
