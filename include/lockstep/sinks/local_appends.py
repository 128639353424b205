"""Appends to a local Delta table for a fifth of the processor that delta-rs takes.

delta-rs lists the table's log twice for each commit and plans the write of its rows. The one writer
of an append-only table needs neither: it knows the version that it is at, and nothing that another
may commit meanwhile, a compaction, conflicts with an append.
Format and rules: https://github.com/delta-io/delta/blob/master/PROTOCOL.md
"""

import os
import time
import uuid
from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Self
from urllib.parse import quote

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

FEATURES = frozenset({"appendOnly", "invariants", "timestampNtz", "variantType"})
"""A table whose writers have to know no others takes appends as they are made here. delta-rs gives
the last one to a table whose properties it sets, whatever its columns."""
WRITER_VERSION_MAX = 2
"""Of a table whose protocol does not name its features."""
STATED_LENGTH = 32
"""Characters of a text in what an entry says of a file's columns."""
LAST_CHARACTER = "\U0010ffff"
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
ENGINE = "Lockstep"
_JSON = msgspec.json.Encoder(decimal_format="number")


class LocalAppends:
    """The appends of a table's one writer; he holds its lock (`local_lakehouse.sole_writer`)."""

    def __init__(self, folder: Path, partition: str, version: int) -> None:
        """partition: its only one, a text or a day. version: the newest that the writer knows."""
        self.version = version
        self._folder, self._log, self._partition = folder, folder / "_delta_log", partition

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
        files: list[Path] = []
        is_committed = False
        try:
            added = [self._added(value, part, files) for value, part in self._parts(rows)]
            is_committed = self._commit(added, marks, rows.num_rows)
        finally:
            for path in () if is_committed else files:
                path.unlink(missing_ok=True)
        return is_committed

    def _parts(self, rows: pa.Table) -> list[tuple[date | str | None, pa.Table]]:
        """The rows by value of the partition, in their order."""
        values = pc.unique(rows[self._partition])
        if len(values) == 1:
            return [(values[0].as_py(), rows)]
        return [
            (value.as_py(), rows.filter(pc.is_in(rows[self._partition], pa.array([value]))))
            for value in values
        ]

    def _added(self, value: date | str | None, rows: pa.Table, files: list[Path]) -> dict:
        """A new file with these rows, as the log's entry names it; files gets its path."""
        text = None if value is None else str(value)
        folder = f"{self._partition}={NO_VALUE if text is None else quote(text, safe='')}"
        path = self._folder / folder / f"part-00000-{uuid.uuid4()}-c000.zstd.parquet"
        content = rows.drop_columns([self._partition])
        files.append(path)
        path.parent.mkdir(exist_ok=True)
        pq.write_table(content, path, compression="zstd", store_schema=False)
        return {
            "path": quote(f"{folder}/{path.name}", safe="/="),
            "partitionValues": {self._partition: text},
            "size": path.stat().st_size,
            "modificationTime": _now_ms(),
            "dataChange": True,
            "stats": _JSON.encode(_stated(content)).decode(),
        }

    def _commit(self, added: list[dict], marks: Mapping[str, int], count: int) -> bool:
        actions: list[dict] = [
            {
                "commitInfo": {
                    "timestamp": _now_ms(),
                    "operation": "WRITE",
                    "operationParameters": {
                        "mode": "Append",
                        "partitionBy": f'["{self._partition}"]',
                    },
                    "isBlindAppend": True,
                    "engineInfo": ENGINE,
                    "operationMetrics": {"num_added_files": len(added), "num_added_rows": count},
                }
            },
            *({"add": one} for one in added),
            *({"txn": {"appId": name, "version": mark}} for name, mark in marks.items()),
        ]
        # A name of its own: one that a killed writer left may be a link to an entry of the log.
        partial = self._log / f"_commit_{uuid.uuid4()}.json.tmp"
        try:
            partial.write_bytes(_JSON.encode_lines(actions))
            return self._link(partial)
        finally:
            partial.unlink(missing_ok=True)

    def _link(self, partial: Path) -> bool:
        """Make the entry the next one. Only this makes anything visible."""
        while True:
            # The oldest entries are removed first: without this one the next may have been there.
            if not self._entry(self.version).exists():
                return False
            next_entry = self._entry(self.version + 1)
            try:
                os.link(partial, next_entry)
            except FileExistsError:
                if not _is_compaction(next_entry):
                    return False
                self.version += 1
            else:
                self.version += 1
                return True

    def _entry(self, version: int) -> Path:
        return self._log / f"{version:020}.json"


def _stated(rows: pa.Table) -> dict:
    """What readers pass by the file by: its rows' number, and each column's bounds and nulls.

    No column that can be compared is left out: delta-rs's datasets take a bound that is missing for
    one that no value keeps. That is so of numbers that are infinite or not a number, by delta-rs's
    own writer, too.
    """
    least, greatest, nulls = {}, {}, {}
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        if not _is_stated(column.type):
            continue
        nulls[name] = column.null_count
        bounds = pc.min_max(column).as_py()
        if bounds["min"] is not None:
            least[name], greatest[name] = _text(bounds["min"]), _text(bounds["max"], is_max=True)
    return {
        "numRecords": rows.num_rows,
        "minValues": least,
        "maxValues": greatest,
        "nullCount": nulls,
    }


def _is_stated(column_type: pa.DataType) -> bool:
    types = pa.types
    return not (types.is_nested(column_type) or types.is_binary(column_type))


def _text(value: object, *, is_max: bool = False) -> object:
    """A bound as JSON has it; of a long text a shorter one that is a bound as well."""
    match value:
        case str() if len(value) > STATED_LENGTH:
            end = STATED_LENGTH
            while is_max and value[end : end + 1] == LAST_CHARACTER:
                end += 1
            return value[:end] + (LAST_CHARACTER if is_max and end < len(value) else "")
        case datetime(tzinfo=None):
            return value.isoformat(timespec="microseconds")
        case datetime():
            return (
                f"{value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"
            )
        case date():
            return value.isoformat()
        case _:
            return value


def _is_compaction(entry: Path) -> bool:
    """Whether a commit only writes the same rows into other files."""
    actions = [msgspec.json.decode(line) for line in entry.read_bytes().splitlines() if line]
    return all(
        name == "commitInfo" or (name in ("add", "remove") and not action["dataChange"])
        for one in actions
        for name, action in one.items()
    )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
