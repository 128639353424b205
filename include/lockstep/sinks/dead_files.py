"""Files of a Delta table that no kept version needs: counted, and removed.

How long a version is kept is the table's own setting, `delta.deletedFileRetentionDuration`, a week
where the table has none. Nothing here takes a lock: who removes is the table's only writer.
"""

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from deltalake import DeltaTable

from lockstep.sinks.delta_commits import NO_HOOKS, translate_delta_errors


@dataclass(frozen=True)
class DeadFiles:
    """How many there are, and their size on the disk together."""

    count: int
    bytes: int


def dead_files(folder: Path) -> DeadFiles:
    """What `remove_dead_files` would remove now; changes nothing. Raises LakehouseError."""
    with translate_delta_errors(str(folder)):
        return _size_of(folder, DeltaTable(folder).vacuum(full=True))


def remove_dead_files(folder: Path) -> DeadFiles:
    """Remove them, and say what they were; every version that the table keeps stays readable.

    Also files of killed writers go, once they are as old. The commits that a run or a repair made
    stay in the log. Raises LakehouseError.
    """
    with translate_delta_errors(str(folder)):
        table = DeltaTable(folder)
        removed = _size_of(folder, table.vacuum(full=True))  # full: as append_log.tidy does
        if removed.count:
            table.vacuum(full=True, dry_run=False, post_commithook_properties=NO_HOOKS)
        return removed


def _size_of(folder: Path, names: list[str]) -> DeadFiles:
    paths = [folder / unquote(name) for name in names]
    return DeadFiles(len(paths), sum(path.stat().st_size for path in paths if path.exists()))
