"""Commits of a local append-only Delta table's one writer, for a third of delta-rs's processor.

delta-rs lists the table's log twice for each commit and plans the write of its rows. The one writer
needs neither: it knows the version that it is at. Its compactions never lose to an append, and
those of delta-rs do each time when appends are quick (`lockstep bench appends`).
Format and rules: https://github.com/delta-io/delta/blob/master/PROTOCOL.md
"""

import os
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from lockstep.sinks.local_files import (
    JSON,
    PartitionValue,
    entry_of,
    new_path,
    now_ms,
    read_file,
    removal_of,
    write_file,
)

FEATURES = frozenset({"appendOnly", "invariants", "timestampNtz", "variantType"})
"""A table whose writers have to know no others takes commits as they are made here. delta-rs gives
the last one to a table whose properties it sets, whatever its columns."""
WRITER_VERSION_MAX = 2
"""Of a table whose protocol does not name its features."""
GROUP_ROWS = 16_384
"""A compaction writes its rows in groups of so many, or twice as many, and holds one of them."""
PARTIAL = "_commit_"
ENGINE = "Lockstep"


class LocalAppends:
    """The commits of a table's writer; he holds its lock (`local_lakehouse.sole_writer`).

    One thread may append while another compacts.
    """

    def __init__(self, folder: Path, partition: str, version: int) -> None:
        """partition: its only one, a text or a day. version: the newest that the writer knows."""
        self.version = version
        self._folder, self._log, self._partition = folder, folder / "_delta_log", partition
        self._committing = threading.Lock()

    @staticmethod
    def remove_left(folder: Path) -> None:
        """Remove what killed writers of the table left in its log's folder. No other process may
        write meanwhile."""
        for path in (folder / "_delta_log").glob(f"{PARTIAL}*.json.tmp"):
            path.unlink(missing_ok=True)

    @classmethod
    def to(cls, folder: Path, table: DeltaTable, partition: str) -> Self | None:
        """Of the table in a folder, in its newest version; None where delta-rs has to write: the
        table has a feature that asks more of its writers."""
        protocol = table.protocol()
        if protocol.writer_features is None:
            is_plain = protocol.min_writer_version <= WRITER_VERSION_MAX
        else:
            is_plain = FEATURES.issuperset(protocol.writer_features)
        has_rules = any(field.metadata for field in table.schema().fields)
        return cls(folder, partition, table.version()) if is_plain and not has_rules else None

    def commit(self, rows: pa.Table, marks: Mapping[str, int]) -> bool:
        """Add the rows, and set the application transactions, in the table's next version.

        rows: in the table's columns. Returns False, and leaves the table as it is, when another
        process committed more than a compaction: a change of its columns, properties or rows.
        Raises OSError, and leaves the table as it is, too.
        """
        actions = [_commit_info("WRITE", {"mode": "Append"}, isBlindAppend=True)]
        actions += [{"txn": {"appId": name, "version": mark}} for name, mark in marks.items()]
        with _NewFiles(self._folder, self._partition) as new:
            for value, part in self._parts(rows):
                actions.append(new.write(value, part.schema, [part], is_new=True))
            return self._commit(actions, new, self.version, _is_compaction)

    def compact(self, table: DeltaTable, target_bytes: int) -> bool:
        """Make one file of several small ones of a partition, in one commit; the rows are the same.

        table: in a version of a moment ago. target_bytes: of the new files, at most; files of that
        size stay. Returns False, and leaves the table as it is, when more than appends came since.
        """
        actions = [_commit_info("OPTIMIZE", {"targetSize": str(target_bytes)})]
        columns = pa.schema(c for c in pa.schema(table.schema()) if c.name != self._partition)
        with _NewFiles(self._folder, self._partition) as new:
            for value, files in _small_files(table, self._partition, target_bytes):
                rows = self._rows_of(files, columns)
                actions.append(new.write(value, columns, rows, is_new=False))
                actions += [removal_of(one, self._partition, value) for one in files]
            is_done = len(actions) == 1
            return is_done or self._commit(actions, new, table.version(), _is_append)

    def _parts(self, rows: pa.Table) -> list[tuple[PartitionValue, pa.Table]]:
        """The rows by value of the partition, in their order, without its column."""
        values, content = rows[self._partition], rows.drop_columns([self._partition])
        found = pc.unique(values)
        if len(found) == 1:
            return [(found[0].as_py(), content)]
        return [(one.as_py(), content.filter(pc.is_in(values, pa.array([one])))) for one in found]

    def _rows_of(
        self, files: Sequence[Mapping[str, Any]], columns: pa.Schema
    ) -> Iterator[pa.Table]:
        """In tables of many rows: a file gets a group of rows for each, and many are slow. A column
        that came after a file is null in its rows."""
        held: list[pa.RecordBatch] = []
        for one in files:
            for batch in read_file(self._folder / unquote(one["path"]), columns, GROUP_ROWS):
                held.append(batch)
                if sum(part.num_rows for part in held) >= GROUP_ROWS:
                    yield pa.Table.from_batches(held)
                    held = []
        if held:
            yield pa.Table.from_batches(held)

    def _commit(
        self,
        actions: Sequence[dict],
        new: "_NewFiles",
        read: int,
        may_follow: Callable[[Path], bool],
    ) -> bool:
        """read: the version that the actions were made of. may_follow: whether they hold after an
        entry that came since."""
        # A name of its own: one that a killed writer left may be a link to an entry of the log.
        partial = self._log / f"{PARTIAL}{uuid.uuid4()}.json.tmp"
        try:
            partial.write_bytes(JSON.encode_lines(actions))
            with self._committing:
                new.are_kept = True  # whatever breaks in from now on: the commit may be made
                try:
                    # What the writer has not seen yet is looked at, too.
                    new.are_kept = self._link(partial, min(read, self.version), may_follow)
                except OSError:
                    new.are_kept = False
                    raise
            return new.are_kept
        finally:
            with suppress(OSError):
                partial.unlink(missing_ok=True)

    def _link(self, partial: Path, version: int, may_follow: Callable[[Path], bool]) -> bool:
        """Make it the first entry after this version that is not there yet; only this makes
        anything visible. Raises OSError, and has made nothing then."""
        while True:
            # The oldest entries are removed first: without this one the next may have been there.
            if not self._entry(version).exists():
                return False
            version += 1
            entry = self._entry(version)
            try:
                os.link(partial, entry)
            except OSError as error:
                if entry.exists() and entry.samefile(partial):
                    pass  # made, and reported as a failure: NFS may do that
                elif not isinstance(error, FileExistsError):
                    raise
                elif may_follow(entry):
                    continue
                else:
                    return False
            self.version = version
            return True

    def _entry(self, version: int) -> Path:
        return self._log / f"{version:020}.json"


class _NewFiles:
    """The data files of one commit, which are removed at the end if it was not made."""

    def __init__(self, folder: Path, partition: str) -> None:
        self.are_kept = False
        self._folder, self._partition = folder, partition
        self._paths: list[Path] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for path in () if self.are_kept else self._paths:
            path.unlink(missing_ok=True)

    def write(
        self,
        value: PartitionValue,
        schema: pa.Schema,
        tables: Iterable[pa.Table],
        *,
        is_new: bool,
    ) -> dict[str, Any]:
        """Write a file; returns its entry. schema, tables, is_new: as of local_files."""
        path = new_path(self._folder, self._partition, value)
        self._paths.append(path)
        stats = write_file(path, schema, tables)
        return entry_of(path, self._partition, value, stats, is_new=is_new)


def _small_files(
    table: DeltaTable, partition: str, target_bytes: int
) -> Iterator[tuple[PartitionValue, list[dict[str, Any]]]]:
    """Those to be joined, oldest first: several of one partition, of target_bytes together."""
    value_of = itemgetter(f"partition.{partition}")
    columns = ["path", "size_bytes", "modification_time", f"partition.{partition}"]
    all_files = pa.table(table.get_add_actions(flatten=True)).select(columns)
    small = all_files.filter(pc.field("size_bytes") < target_bytes).to_pylist()
    small.sort(key=lambda one: (str(value_of(one)), one["modification_time"]))
    for value, files in groupby(small, value_of):
        joined: list[dict[str, Any]] = []
        for one in files:
            if joined and sum(f["size_bytes"] for f in joined) + one["size_bytes"] > target_bytes:
                if len(joined) > 1:
                    yield value, joined
                joined = []
            joined.append(one)
        if len(joined) > 1:
            yield value, joined


def _commit_info(operation: str, parameters: Mapping[str, str], **more: object) -> dict[str, Any]:
    return {
        "commitInfo": {
            "timestamp": now_ms(),
            "operation": operation,
            "operationParameters": parameters,
            "engineInfo": ENGINE,
            **more,
        }
    }


def _is_compaction(entry: Path) -> bool:
    """Whether a commit only wrote the same rows into other files."""
    return all(
        name == "commitInfo" or (name in ("add", "remove") and not action["dataChange"])
        for name, action in _actions(entry)
    )


def _is_append(entry: Path) -> bool:
    """Whether a commit only added rows."""
    return all(name in ("commitInfo", "add", "txn") for name, _ in _actions(entry))


def _actions(entry: Path) -> Iterator[tuple[str, Any]]:
    for line in entry.read_bytes().splitlines():
        yield from msgspec.json.decode(line).items()
