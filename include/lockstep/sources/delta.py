"""Reads Delta tables without Spark: delta-rs opens them, its DataFusion engine answers SQL.

Opening a table takes milliseconds and a query streams, so this serves `lockstep sql`, the quality
checks and whatever else must not wait for a JVM. Never writes, and never knows a pipeline's tables.
"""

import re
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.schema import ArrayType, DataType, MapType, StructType

from lockstep.delta_tables import open_delta
from lockstep.errors import LakehouseError
from lockstep.pipeline.names import sql_name
from lockstep.settings import Settings
from lockstep.sources.errors import QueryError

# An object store that does not answer is reported after seconds; delta-rs would retry for minutes.
_OBJECT_STORE_PATIENCE = {
    "connect_timeout": "3 seconds",
    "timeout": "30 seconds",
    "max_retries": "3",
}
_SQL_NAMES = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}
_ANSI_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_BACKTRACE_LINE = re.compile(r"^\s*(\d+: |at\b|↳$)")


def open_table(uri: str, version: int | None = None) -> DeltaTable:
    """Open the Delta table at a folder or s3a:// URI, in its newest version if none is given.

    Raises LakehouseError when there is no table, or none that can be read.
    """
    patience = _OBJECT_STORE_PATIENCE if "://" in uri else None
    try:
        return open_delta(uri, version, patience)
    except TableNotFoundError:
        raise LakehouseError(
            f"there is no Delta table at {uri}: has a run written it yet? "
            "(`lockstep pipeline run NAME START END` writes one window)"
        ) from None
    except (DeltaError, OSError) as error:
        what = uri if version is None else f"{uri} at version {version}"
        raise LakehouseError(f"the Delta table {what} cannot be read: {reason(error)}") from error


def column_types(table: DeltaTable) -> dict[str, str]:
    """The type of each column as Spark's SQL writes it: array<struct<a:string,b:decimal(10,2)>>."""
    return {field.name: _type_text(field.type) for field in table.schema().fields}


def _type_text(found: DataType) -> str:
    match found:
        case ArrayType():
            return f"array<{_type_text(found.element_type)}>"
        case MapType():
            return f"map<{_type_text(found.key_type)},{_type_text(found.value_type)}>"
        case StructType():
            fields = (f"{field.name}:{_type_text(field.type)}" for field in found.fields)
            return f"struct<{','.join(fields)}>"
    return _SQL_NAMES.get(found.type, found.type)


def run_query(sql: str, tables: Mapping[str, DeltaTable]) -> pa.RecordBatchReader:
    """Answer one SQL statement over the named tables, as a stream of Arrow record batches.

    The caller sees to it that the statement only reads. Raises QueryError when it cannot be
    planned; an error while rows are read comes from the reader, as pyarrow.ArrowException.
    """
    builder = QueryBuilder()
    for name, table in tables.items():
        builder.register(name, table)
    try:
        return pa.RecordBatchReader.from_stream(builder.execute(sql))
    except (DeltaError, OSError, ValueError) as error:
        raise QueryError(reason(error)) from error


def table_uris(settings: Settings) -> dict[str, str]:
    """Find every Delta table of the lakehouse: its short SQL name, and where it is.

    The short name is the last element of the path; where two tables share it, both are named
    folder_table instead. A local folder is walked; in an object store the tables of the
    pipeline that is worked for are taken to exist.
    """
    lakehouse_uri = settings.lakehouse_uri
    if "://" in lakehouse_uri:
        paths = list(settings.names.tables)
    else:
        root = Path(lakehouse_uri)
        paths = sorted(str(folder.relative_to(root)) for folder in _delta_folders(root))
    last_elements = [sql_name(path) for path in paths]
    return {
        (last if last_elements.count(last) == 1 else path.replace("/", "_")): (
            f"{lakehouse_uri.rstrip('/')}/{path}"
        )
        for path, last in zip(paths, last_elements, strict=True)
    }


def _delta_folders(folder: Path) -> list[Path]:
    """Delta tables at any depth; a table's own folder (its partitions) is not walked."""
    if (folder / "_delta_log").is_dir():
        return [folder]
    try:
        below = [
            child
            for child in folder.iterdir()
            if child.is_dir() and not child.name.startswith(".")  # tables that are being made
        ]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise LakehouseError(f"the lakehouse folder {folder} cannot be listed: {error}") from error
    return [table for child in below for table in _delta_folders(child)]


def reason(error: Exception) -> str:
    """The text of an engine's error on one line, without colours and native backtraces."""
    lines = _ANSI_COLOUR.sub("", str(error)).splitlines()
    kept = [line.strip(" ↳") for line in lines if not _BACKTRACE_LINE.match(line)]
    return " ".join(line for line in kept if line)
