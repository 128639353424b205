"""Sizes of folders and of dead files, for the report. Changes nothing."""

import os
from pathlib import Path

from rich.filesize import decimal

from lockstep.sinks.dead_files import DeadFiles


def size_of(folder: Path) -> int:
    """Bytes of all files below the folder; a file that goes away meanwhile counts as none."""
    return sum(
        _file_bytes(Path(place, name)) for place, _, names in os.walk(folder) for name in names
    )


def _file_bytes(path: Path) -> int:
    try:
        return path.lstat().st_size
    except FileNotFoundError:
        return 0


def in_words(files: DeadFiles) -> str:
    """How many dead files there are, and their size."""
    return f"{files.count:,} dead files ({decimal(files.bytes)})" if files.count else "no dead file"
