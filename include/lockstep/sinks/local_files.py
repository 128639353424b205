"""Data files of a local Delta table, and what the table's log says of them.

Format: https://github.com/delta-io/delta/blob/master/PROTOCOL.md (Add File, per-file statistics).
"""

import math
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
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
JSON = msgspec.json.Encoder()


def new_path(folder: Path, partition: str, value: PartitionValue) -> Path:
    """Where a file with rows of a partition goes; its folder is made."""
    text = NO_VALUE if value is None else quote(str(value), safe="")
    path = folder / f"{partition}={text}" / f"part-00000-{uuid.uuid4()}-c000.zstd.parquet"
    path.parent.mkdir(exist_ok=True)
    return path


def write_file(path: Path, schema: pa.Schema, tables: Iterable[pa.Table]) -> str:
    """Write the rows, and return their statistics as the log has them.

    schema: theirs, without the partition's column. tables: together they need not fit into memory.
    Raises OSError.
    """
    stated = _Stated()
    with pq.ParquetWriter(path, schema, compression="zstd", store_schema=False) as writer:
        for table in tables:
            writer.write_table(table)
            stated.add(table)
    return stated.text()


def read_file(path: Path, schema: pa.Schema, rows_max: int) -> Iterator[pa.RecordBatch]:
    """The rows in so many at a time, in these columns; one that the file has not is null."""
    with pq.ParquetFile(path, pre_buffer=False) as file:  # else it holds all of the file
        for batch in file.iter_batches(rows_max):
            found = {name: batch[name] for name in batch.schema.names}
            columns = [
                found[column.name].cast(column.type)
                if column.name in found
                else pa.nulls(batch.num_rows, column.type)
                for column in schema
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def entry_of(
    path: Path, partition: str, value: PartitionValue, stats: str, *, is_new: bool
) -> dict[str, Any]:
    """What the log says of a file. is_new: its rows were not in the table before."""
    return {
        "add": {
            "path": quote(f"{path.parent.name}/{path.name}", safe="/="),
            "partitionValues": _partition_values(partition, value),
            "size": path.stat().st_size,
            "modificationTime": now_ms(),
            "dataChange": is_new,
            "stats": stats,
        }
    }


def removal_of(file: Mapping[str, Any], partition: str, value: PartitionValue) -> dict[str, Any]:
    """What the log says of a file whose rows are in others now.

    file: with path and size_bytes, as delta-rs reads them from the log.
    """
    return {
        "remove": {
            "path": file["path"],
            "deletionTimestamp": now_ms(),
            "dataChange": False,
            "extendedFileMetadata": True,
            "partitionValues": _partition_values(partition, value),
            "size": file["size_bytes"],
        }
    }


def _partition_values(partition: str, value: PartitionValue) -> dict[str, str | None]:
    return {partition: None if value is None else str(value)}


def now_ms() -> int:
    """Since the epoch, as the log has times."""
    return time.time_ns() // 1_000_000


class _Stated:
    """What readers skip a file by: its rows' number, and each column's bounds and nulls.

    A dataset of delta-rs skips a file whose bound of a column is null. So every column has bounds
    whose type has any. JSON has none for an infinite number or for only NaN, as in what delta-rs
    writes. Days outside the years 1 to 9999 have none either: a dataset cannot read them at all.
    """

    def __init__(self) -> None:
        self._rows = 0
        self._unbounded: set[str] = set()
        self._nulls: dict[str, int] = {}
        self._least: dict[str, Any] = {}
        self._greatest: dict[str, Any] = {}

    def add(self, table: pa.Table) -> None:
        self._rows += table.num_rows
        for name, column in zip(table.column_names, table.columns, strict=True):
            if pa.types.is_nested(column.type) or pa.types.is_binary(column.type):
                continue
            self._nulls[name] = self._nulls.get(name, 0) + column.null_count
            try:
                bounds = pc.min_max(column).as_py()
            except (OverflowError, ValueError):  # a day that Python cannot represent
                self._unbounded.add(name)
                continue
            least, greatest = bounds["min"], bounds["max"]
            is_nan = isinstance(least, float) and math.isnan(least)  # of only NaN
            if least is not None and not is_nan:
                self._least[name] = min(least, self._least.get(name, least))
                self._greatest[name] = max(greatest, self._greatest.get(name, greatest))

    def text(self) -> str:
        bounded = [name for name in self._least if name not in self._unbounded]
        stated = {
            "numRecords": self._rows,
            "minValues": {name: _bound(self._least[name]) for name in bounded},
            "maxValues": {name: _bound(self._greatest[name], is_max=True) for name in bounded},
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
        case Decimal():  # with all its digits: what reads it does not know 0E-18
            return msgspec.Raw(format(value, "f").encode())
        case _:
            return value
