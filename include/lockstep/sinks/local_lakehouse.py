"""What a local lakehouse folder needs before a run writes to it: one writer, rights and room.

Tables on an object store have none of these: their commits are atomic there by other means.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lockstep.errors import LakehouseError, WriterBusyError
from lockstep.settings import Settings


@contextmanager
def sole_writer(settings: Settings, table: str) -> Iterator[None]:
    """Hold the table's writer lock for the block; it ends with the process, however that ends.

    On a local file system two processes that commit at the same moment can both believe that they
    won (shared design, "Spark and Delta"), so a second writer is refused.

    Raises WriterBusyError when another process holds the lock, LakehouseError when the folder
    cannot be written or has less than settings.min_free_bytes left.
    """
    folder = _local_folder(settings.table_uri(table))
    if folder is None:
        yield
        return
    _require_room(folder, settings.min_free_bytes)
    # Beside the table, not in it: a new, still empty table folder is no Delta table.
    lock_path = folder.with_name(f".{folder.name}.writer.lock")
    with lock_path.open("a+", encoding="utf-8") as lock_file:
        try:
            fcntl.flock(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock_file.seek(0)
            raise WriterBusyError(
                f"another process (pid {lock_file.read().strip() or 'unknown'}) is writing "
                f"{folder}; wait for it, or stop it, then run again"
            ) from None
        lock_file.truncate(0)
        lock_file.write(str(os.getpid()))
        lock_file.flush()
        yield


def _local_folder(uri: str) -> Path | None:
    if uri.startswith("file:"):
        uri = uri.removeprefix("file:").removeprefix("//")
    return None if "://" in uri else Path(uri)


def _require_room(folder: Path, free_bytes_min: int) -> None:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder.parent) as probe:
            probe.write(b"\0")
    except OSError as error:
        raise LakehouseError(
            f"the lakehouse folder {folder.parent} cannot be written ({error.strerror}); "
            "give this user the rights, or set LOCKSTEP_LAKEHOUSE to another place"
        ) from error
    free_bytes = shutil.disk_usage(folder.parent).free
    if free_bytes < free_bytes_min:
        raise LakehouseError(
            f"only {free_bytes / 1024**2:,.0f} MiB are free at {folder.parent}, under the "
            f"{free_bytes_min / 1024**2:,.0f} MiB that a run asks for "
            "(LOCKSTEP_MIN_FREE_BYTES); make room, then run again"
        )
