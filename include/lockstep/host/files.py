"""Files of the home: private ones, and logs that stay bounded. Nothing here knows a service."""

import os
import secrets
import shutil
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LOG_BYTES_MAX = 20 * 1024**2
"""Above this a log is put aside at the next start, or cut by maintenance; one old generation is
kept."""


def make_private_folder(folder: Path) -> Path:
    """Create the folder for its owner alone; one that exists keeps its mode."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def write_private(path: Path, text: str, *, durable: bool = True) -> None:
    """Write a file only its owner can read, whole or not at all.

    Not durable: faster, and a crash of the machine may leave it empty or as it was.
    """
    with _private_partial(path, text, durable=durable) as partial:
        partial.replace(path)


def write_private_once(path: Path, text: str) -> None:
    """Write it only if there is none; of several that try at once, the first wins."""
    if path.exists():
        return
    with _private_partial(path, text) as partial, suppress(FileExistsError):
        os.link(partial, path)


@contextmanager
def _private_partial(path: Path, text: str, *, durable: bool = True) -> Iterator[Path]:
    """A complete file next to the path, gone at the end unless it was moved."""
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        yield partial
    finally:
        partial.unlink(missing_ok=True)


def logs_folder(home: Path) -> Path:
    return home / "logs"


def log_path(home: Path, service: str) -> Path:
    return logs_folder(home) / f"{service}.log"


def bounded_log(home: Path, service: str) -> Path:
    """The log to append to; one that has grown too large is put aside as `.1` first."""
    path = log_path(home, service)
    make_private_folder(path.parent)
    if path.exists() and path.stat().st_size > LOG_BYTES_MAX:
        path.replace(path.with_suffix(".log.1"))
    path.touch(mode=0o600)
    return path


def cut_log(path: Path, *, is_dry_run: bool = False) -> int:
    """Cut a log that has grown too large while its service writes on; returns the bytes freed.

    Its end, LOG_BYTES_MAX of it, replaces the old generation `.1`, and the log itself is emptied:
    what writes it appends (O_APPEND), and so goes on at its new beginning. Lines that are written
    in the moment between are lost. A dry run changes nothing and returns the same.
    """
    old = path.with_suffix(".log.1")
    size = path.stat().st_size
    if size <= LOG_BYTES_MAX:
        return 0
    freed = size - LOG_BYTES_MAX + (old.stat().st_size if old.exists() else 0)
    if not is_dry_run:
        _copy_end(path, old)
        os.truncate(path, 0)
    return freed


def _copy_end(path: Path, target: Path) -> None:
    partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with path.open("rb") as log, os.fdopen(descriptor, "wb") as copy:
            log.seek(-LOG_BYTES_MAX, os.SEEK_END)
            shutil.copyfileobj(log, copy)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def last_lines(path: Path, count: int) -> list[str]:
    """The last lines of a text file, none when it does not exist."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return [line.rstrip("\n") for line in deque(file, maxlen=count)]
    except FileNotFoundError:
        return []
