"""Reads a local Delta table's log, commit by commit, straight from its JSON files.

The checks judge every version, so they open each commit once instead of the table thousands of
times, and do not lean on the writer's own code. Rows are read, never judged here.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from lockstep.errors import LakehouseError

FRONTIER = "/frontier"
"""How the application id ends whose transaction version is the frontier."""


@dataclass(frozen=True)
class Commit:
    """What one version did. `is_rewrite`: a compaction, the same rows in other files."""

    version: int
    added: tuple[str, ...]
    removed: tuple[str, ...]
    is_rewrite: bool
    frontier: int | None


def read_commit(folder: Path, version: int) -> Commit | None:
    """The commit that made this version, or None when there is none (yet, or any longer)."""
    try:
        lines = _commit_path(folder, version).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return None
    actions = [json.loads(line) for line in lines if line]
    added = [action["add"] for action in actions if "add" in action]
    removed = [action["remove"] for action in actions if "remove" in action]
    return Commit(
        version,
        tuple(unquote(add["path"]) for add in added),
        tuple(unquote(remove["path"]) for remove in removed),
        bool(removed) and not any(action["dataChange"] for action in (*added, *removed)),
        _frontier(actions),
    )


def _frontier(actions: list[dict]) -> int | None:
    for action in actions:
        app_id = action.get("txn", {}).get("appId", "")
        if app_id.endswith(FRONTIER):
            return action["txn"]["version"]
    return None


def versions(folder: Path) -> tuple[int, int]:
    """The oldest and the newest version whose commits are still there.

    Raises LakehouseError when there is no table.
    """
    found = [int(path.stem) for path in (folder / "_delta_log").glob("[0-9]*.json")]
    if not found:
        raise LakehouseError(f"there is no Delta table at {folder}: has its stream run yet?")
    return min(found), max(found)


def newest_frontier(folder: Path) -> tuple[int, int]:
    """The newest version, and the frontier it reached (-1 when no commit has one)."""
    oldest, newest = versions(folder)
    for version in range(newest, oldest - 1, -1):
        commit = read_commit(folder, version)
        if commit is not None and commit.frontier is not None:
            return newest, commit.frontier
    return newest, -1


def read_rows(folder: Path, file: str, columns: list[str]) -> pa.Table:
    """These columns of a data file's rows; partition columns are not in it.

    Raises LakehouseError when the file is gone.
    """
    try:
        return pq.ParquetFile(folder / file).read(columns)
    except FileNotFoundError:
        raise LakehouseError(
            f"{folder / file} was removed before its version was checked: check more often than "
            "the stream vacuums"
        ) from None


def _commit_path(folder: Path, version: int) -> Path:
    return folder / "_delta_log" / f"{version:020}.json"
