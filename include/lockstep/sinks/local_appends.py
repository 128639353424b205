"""Commits of a local append-only Delta table's one writer, at a fifth of delta-rs's processor.

delta-rs lists the table's log twice for each commit and plans the write of its rows. The one writer
needs neither: it knows the version that it is at. Its compactions give way to no append, as those
of delta-rs have to, which so find no end beside a quick writer.
Format and rules: https://github.com/delta-io/delta/blob/master/PROTOCOL.md
"""

import os
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable

from lockstep.sinks.local_files import (
    JSON,
    PartitionValue,
    entry_of,
    new_path,
    now_ms,
    partition_values,
    write_file,
)

FEATURES = frozenset({"appendOnly", "invariants", "timestampNtz", "variantType"})
"""A table whose writers have to know no others takes commits as they are made here. delta-rs gives
the last one to a table whose properties it sets, whatever its columns."""
WRITER_VERSION_MAX = 2
"""Of a table whose protocol does not name its features."""
GROUP_ROWS = 65_536
"""Of a compaction, in memory together."""
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

        rows: in the table's columns. Returns False, and leaves the table as it is, when somebody
        else committed what an append may not pass by: a change of its columns or properties, or
        of its rows. Raises OSError, and leaves the table as it is, too.
        """
        actions = [_commit_info("WRITE", {"mode": "Append"}, isBlindAppend=True)]
        actions += [{"txn": {"appId": name, "version": mark}} for name, mark in marks.items()]
        with _NewFiles(self._folder, self._partition) as new:
            actions += [new.write(value, [part], is_new=True) for value, part in self._parts(rows)]
            new.are_kept = self._commit(actions, _may_append_after)
        return new.are_kept

    def compact(self, table: DeltaTable, target_bytes: int) -> bool:
        """Make one file of several small ones of a partition, in one commit; the rows are the same.

        table: opened now. target_bytes: of the new files, at most; files of that size stay. Returns
        False, and leaves the table as it is, when somebody else changed more than rows are added.
        """
        actions = [_commit_info("OPTIMIZE", {"targetSize": str(target_bytes)})]
        with _NewFiles(self._folder, self._partition) as new:
            for value, files in _small_files(table, self._partition, target_bytes):
                rows = self._rows_of(table, files)
                actions.append(new.write(value, rows, is_new=False))
                actions += [self._removal(value, one) for one in files]
            new.are_kept = len(actions) == 1 or self._commit(actions, _may_compact_after)
        return new.are_kept

    def _parts(self, rows: pa.Table) -> list[tuple[PartitionValue, pa.Table]]:
        """The rows by value of the partition, in their order, without its column."""
        values, content = rows[self._partition], rows.drop_columns([self._partition])
        found = pc.unique(values)
        if len(found) == 1:
            return [(found[0].as_py(), content)]
        return [(one.as_py(), content.filter(pc.is_in(values, pa.array([one])))) for one in found]

    def _rows_of(self, table: DeltaTable, files: Sequence[Mapping[str, Any]]) -> Iterator[pa.Table]:
        """Without the partition's column; a column that came after a file is null in its rows."""
        columns = [one for one in pa.schema(table.schema()) if one.name != self._partition]
        paths = [str(self._folder / unquote(one["path"])) for one in files]
        rows = ds.dataset(paths, pa.schema(columns), format="parquet").to_batches()
        return _in_large_tables(rows)

    def _removal(self, value: PartitionValue, file: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "remove": {
                "path": file["path"],
                "deletionTimestamp": now_ms(),
                "dataChange": False,
                "extendedFileMetadata": True,
                "partitionValues": partition_values(self._partition, value),
                "size": file["size_bytes"],
            }
        }

    def _commit(self, actions: Sequence[dict], may_come_after: Callable[[Path], bool]) -> bool:
        """Only the link makes anything visible."""
        # A name of its own: one that a killed writer left may be a link to an entry of the log.
        partial = self._log / f"_commit_{uuid.uuid4()}.json.tmp"
        try:
            partial.write_bytes(JSON.encode_lines(actions))
            with self._committing:
                return self._link(partial, may_come_after)
        finally:
            partial.unlink(missing_ok=True)

    def _link(self, partial: Path, may_come_after: Callable[[Path], bool]) -> bool:
        """Make it the log's next entry, after what others committed, as far as it may."""
        while True:
            # The oldest entries are removed first: without this one the next may have been there.
            if not self._entry(self.version).exists():
                return False
            next_entry = self._entry(self.version + 1)
            try:
                os.link(partial, next_entry)
            except FileExistsError:
                if not may_come_after(next_entry):
                    return False
                self.version += 1
            else:
                self.version += 1
                return True

    def _entry(self, version: int) -> Path:
        return self._log / f"{version:020}.json"


class _NewFiles:
    """The data files of one commit, which are removed at the end unless it is made."""

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
        self, value: PartitionValue, tables: Iterable[pa.Table], *, is_new: bool
    ) -> dict[str, Any]:
        """Write a file; returns its entry. tables, is_new: as of local_files."""
        path = new_path(self._folder, self._partition, value)
        self._paths.append(path)
        stats = write_file(path, tables)
        return entry_of(path, self._partition, value, stats, is_new=is_new)


def _small_files(
    table: DeltaTable, partition: str, target_bytes: int
) -> Iterator[tuple[PartitionValue, list[dict[str, Any]]]]:
    """Those to be joined, oldest first: several of one partition, of target_bytes together."""
    small = [
        one
        for one in pa.table(table.get_add_actions(flatten=True)).to_pylist()
        if one["size_bytes"] < target_bytes
    ]
    value_of = itemgetter(f"partition.{partition}")
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


def _in_large_tables(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The same rows; a file gets a group of rows for each table, and small ones make it slow."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(one.num_rows for one in held) >= GROUP_ROWS:
            yield pa.Table.from_batches(held)
            held = []
    if held:
        yield pa.Table.from_batches(held)


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


def _may_append_after(entry: Path) -> bool:
    """Whether a commit only wrote the same rows into other files."""
    return all(
        name == "commitInfo" or (name in ("add", "remove") and not action["dataChange"])
        for name, action in _actions(entry)
    )


def _may_compact_after(entry: Path) -> bool:
    """Whether a commit only added rows."""
    return all(name in ("commitInfo", "add", "txn") for name, _ in _actions(entry))


def _actions(entry: Path) -> Iterator[tuple[str, Any]]:
    for line in entry.read_bytes().splitlines():
        yield from msgspec.json.decode(line).items()
