"""Data files of a local Delta table, and what the table's log says of them.

Format: https://github.com/delta-io/delta/blob/master/PROTOCOL.md (Add File, per-file statistics).
"""

import time
import uuid
from collections.abc import Iterable
from datetime import UTC, date, datetime
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
STATED_LENGTH = 32
"""Characters of a text in what the log says of a file's columns."""
LAST_CHARACTER = "\U0010ffff"
PartitionValue = date | str | None
JSON = msgspec.json.Encoder(decimal_format="number")


def new_path(folder: Path, partition: str, value: PartitionValue) -> Path:
    """Where a file with rows of a partition goes; its folder is made."""
    text = NO_VALUE if value is None else quote(str(value), safe="")
    path = folder / f"{partition}={text}" / f"part-00000-{uuid.uuid4()}-c000.zstd.parquet"
    path.parent.mkdir(exist_ok=True)
    return path


def write_file(path: Path, tables: Iterable[pa.Table]) -> str:
    """Write the rows, and return their statistics as the log has them.

    tables: at least one, without the partition's column; together they need not fit into memory.
    Raises OSError.
    """
    rest = iter(tables)
    first = next(rest)
    stated = _Stated()
    with pq.ParquetWriter(path, first.schema, compression="zstd", store_schema=False) as writer:
        for table in chain([first], rest):
            writer.write_table(table)
            stated.add(table)
    return stated.text()


def partition_values(partition: str, value: PartitionValue) -> dict[str, str | None]:
    """As the log has them."""
    return {partition: None if value is None else str(value)}


def entry_of(
    path: Path, partition: str, value: PartitionValue, stats: str, *, is_new: bool
) -> dict[str, Any]:
    """What the log says of a file. is_new: its rows were not in the table before."""
    return {
        "add": {
            "path": quote(f"{path.parent.name}/{path.name}", safe="/="),
            "partitionValues": partition_values(partition, value),
            "size": path.stat().st_size,
            "modificationTime": now_ms(),
            "dataChange": is_new,
            "stats": stats,
        }
    }


def now_ms() -> int:
    """Since the epoch, as the log has times."""
    return time.time_ns() // 1_000_000


class _Stated:
    """What readers pass by a file by: its rows' number, and each column's bounds and nulls.

    No column that can be compared is left out: delta-rs's datasets take a bound that is missing for
    one that no value keeps. That is so of numbers that are infinite or not a number, by delta-rs's
    own writer, too.
    """

    def __init__(self) -> None:
        self._rows = 0
        self._nulls: dict[str, int] = {}
        self._least: dict[str, Any] = {}
        self._greatest: dict[str, Any] = {}

    def add(self, table: pa.Table) -> None:
        self._rows += table.num_rows
        for name, column in zip(table.column_names, table.columns, strict=True):
            if pa.types.is_nested(column.type) or pa.types.is_binary(column.type):
                continue
            self._nulls[name] = self._nulls.get(name, 0) + column.null_count
            bounds = pc.min_max(column).as_py()
            if bounds["min"] is not None:
                self._least[name] = min(bounds["min"], self._least.get(name, bounds["min"]))
                self._greatest[name] = max(bounds["max"], self._greatest.get(name, bounds["max"]))

    def text(self) -> str:
        stated = {
            "numRecords": self._rows,
            "minValues": {name: _bound(one) for name, one in self._least.items()},
            "maxValues": {name: _bound(one, is_max=True) for name, one in self._greatest.items()},
            "nullCount": self._nulls,
        }
        return JSON.encode(stated).decode()


def _bound(value: object, *, is_max: bool = False) -> object:
    """As JSON has it; of a long text a shorter one that is a bound as well."""
    match value:
        case str() if len(value) > STATED_LENGTH:
            end = STATED_LENGTH
            while is_max and value[end : end + 1] == LAST_CHARACTER:
                end += 1
            return value[:end] + (LAST_CHARACTER if is_max and end < len(value) else "")
        case datetime():
            in_utc = value if value.tzinfo is None else value.astimezone(UTC)
            zone = "" if value.tzinfo is None else "Z"
            return in_utc.replace(tzinfo=None).isoformat(timespec="microseconds") + zone
        case date():
            return value.isoformat()
        case _:
            return value
