"""Follows a change log through all its versions, and judges each: is it a prefix of the history?

A follower reads each commit's added files once, in order, and keeps the last change of each watched
order; so that thousands of versions cost as much as reading the table once. It must come by before
the writer's own clean-up removes old commits.
"""

from collections import Counter
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

import pyarrow as pa
from lockstep.pipeline.result_tables import CHANGE_COLUMNS, CHANGE_PARTITION

from lockstep_tools.soak import delta_log
from lockstep_tools.soak.delta_log import Commit
from lockstep_tools.soak.findings import Finding, findings_of

_POSITIONED = ["order_id", "op", "tx_id", "commit_lsn", "pizzas"]
_DATA = [
    *("order_id", "order_time", "client_name", "table_name", "pizzas"),
    *(name for name in CHANGE_COLUMNS if name != CHANGE_PARTITION),
]
"""The partition's column is not in the files; compaction must not change the others."""
_DIGEST_BITS = 64


@dataclass(frozen=True)
class Change:
    """What the checks need of one row; `pizzas` is how many, None in a delete."""

    order_id: int
    op: str
    tx_id: int | None
    commit_lsn: int
    pizzas: int | None


@dataclass(frozen=True)
class Version:
    """One version of a change log: its changes, and what the watched orders hold after it."""

    number: int
    frontier: int
    changes: tuple[Change, ...]
    pizzas: int
    problems: tuple[str, ...]


@dataclass
class VersionFollower:
    """Goes through the versions of one change log; call `advance` again to go on.

    It begins with the oldest version that is still there. watched: the orders whose pizzas are
    counted; None for all.
    """

    folder: Path
    watched: Container[int] | None = None
    next_version: int | None = None
    frontier: int = -1
    pizzas: int = 0
    has_watched: bool = False
    """Whether any change of a watched order has been seen."""
    _latest: dict[int, int] = field(default_factory=dict)
    _content: dict[str, tuple[int, int]] = field(default_factory=dict)

    def advance(self) -> Iterator[Version]:
        """Each version since the last call, in order, ending with the newest.

        A version whose commit has been cleaned up before it was read is a problem of the next.
        """
        missed: tuple[str, ...] = ()
        oldest, newest = delta_log.versions(self.folder)
        if self.next_version is None:
            self.next_version = oldest
        if oldest > self.next_version:
            missed = (f"commits {self.next_version} to {oldest - 1} are gone unread",)
            self.next_version = oldest
        while self.next_version <= newest:
            commit = delta_log.read_commit(self.folder, self.next_version)
            if commit is None:
                missed = (f"commit {self.next_version} is gone unread",)
            else:
                yield self._apply(commit, missed)
                missed = ()
            self.next_version += 1

    def watch(self, orders: Container[int]) -> None:
        """Count the pizzas of these orders from now on; no version up to here knew them."""
        self.watched, self.has_watched, self.pizzas, self._latest = orders, False, 0, {}

    def _apply(self, commit: Commit, missed: tuple[str, ...]) -> Version:
        if commit.is_rewrite:
            problems = self._rewritten(commit)
            return Version(commit.version, self.frontier, (), self.pizzas, missed + problems)
        rows = self._read(commit)
        changes = tuple(sorted(_changes(rows), key=lambda change: change.commit_lsn))
        problems = self._misplaced(commit, changes)
        for change in changes:
            self._count(change)
        if commit.frontier is not None:
            self.frontier = max(self.frontier, commit.frontier)
        return Version(commit.version, self.frontier, changes, self.pizzas, missed + problems)

    def _read(self, commit: Commit) -> pa.Table:
        """The added rows; remembers what each file holds, for the day it is compacted."""
        tables = []
        for file in commit.added:
            rows = delta_log.read_rows(self.folder, file, _DATA)
            self._content[file] = _digest(rows)
            tables.append(rows.select(_POSITIONED))
        return pa.concat_tables(tables) if tables else pa.table({name: [] for name in _POSITIONED})

    def _rewritten(self, commit: Commit) -> tuple[str, ...]:
        """A compaction's new files must hold the very rows of the old ones."""
        before = _sum(self._content_of(file) for file in commit.removed)
        self._read(commit)
        after = _sum(self._content[file] for file in commit.added)
        if before == after:
            return ()
        return (f"{before[0]} rows became {after[0]}, or others, in a compaction",)

    def _content_of(self, file: str) -> tuple[int, int]:
        """A file from before the first version read is opened now, if it is still there."""
        if file not in self._content:
            return _digest(delta_log.read_rows(self.folder, file, _DATA))
        return self._content.pop(file)

    def _misplaced(self, commit: Commit, changes: tuple[Change, ...]) -> tuple[str, ...]:
        """Changes outside (frontier before, frontier after]; snapshot rows only at the start."""
        problems = []
        if commit.removed:
            problems.append(f"{len(commit.removed)} files of an append-only table were removed")
        upper = self.frontier if commit.frontier is None else commit.frontier
        if upper < self.frontier:
            problems.append(f"the frontier went back from {self.frontier} to {upper}")
        for change in changes:
            is_first = change.commit_lsn == 0 and self.frontier <= 0
            if not is_first and not self.frontier < change.commit_lsn <= upper:
                problems.append(
                    f"order {change.order_id} at {change.commit_lsn} is not in "
                    f"({self.frontier}, {upper}]"
                )
        return tuple(problems)

    def _count(self, change: Change) -> None:
        if self.watched is not None and change.order_id not in self.watched:
            return
        self.has_watched = True
        self.pizzas += (change.pizzas or 0) - self._latest.pop(change.order_id, 0)
        if change.op != "d":
            self._latest[change.order_id] = change.pizzas or 0


def check_versions(
    follower: VersionFollower, subject: str, total: int | None = None
) -> list[Finding]:
    """Findings of all versions since the follower's last stand.

    Each version holds the changes of a prefix of the commit order, whole and only once, and a
    compaction changes no row. total: how many pizzas the watched orders hold, all together, in
    every version from the first that knows any of them; None to leave that out.
    """
    problems, wrong_totals = [], []
    for version in follower.advance():
        problems += [f"version {version.number}: {problem}" for problem in version.problems]
        if total is not None and version.pizzas != total and follower.has_watched:
            wrong_totals.append(f"version {version.number}: {version.pizzas} pizzas")
    return [
        *findings_of("versions", subject, "not a prefix of the history", problems),
        *findings_of("versions", subject, f"not {total} pizzas", wrong_totals),
    ]


def _changes(rows: pa.Table) -> list[Change]:
    counts = [None if value is None else len(value) for value in rows["pizzas"].to_pylist()]
    columns = [rows[name].to_pylist() for name in _POSITIONED[:-1]]
    return [Change(*values) for values in zip(*columns, counts, strict=True)]


def _digest(rows: pa.Table) -> tuple[int, int]:
    """How many rows, and a sum of their hashes, which does not depend on their order."""
    total = 0
    for row, count in Counter(map(repr, rows.to_pylist())).items():
        digest = blake2b(row.encode(), digest_size=_DIGEST_BITS // 8).digest()
        total += count * int.from_bytes(digest, "big")
    return rows.num_rows, total % 2**_DIGEST_BITS


def _sum(contents: Iterator[tuple[int, int]]) -> tuple[int, int]:
    rows, digests = 0, 0
    for count, digest in contents:
        rows, digests = rows + count, digests + digest
    return rows, digests % 2**_DIGEST_BITS
