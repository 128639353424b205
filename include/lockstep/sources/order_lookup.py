"""The look-up join: what the view says, now, of the rows that a micro-batch changed.

Spark's executors ask PostgreSQL, each Python worker over a connection that it keeps; the driver
only compares times. The answer is of now and the change of then, so what may have happened in
between is marked, by commit timestamps: transaction ids follow the order of beginning, not of
committing. Debezium's source.ts_us is that timestamp, to the microsecond
(tests/sources/test_order_lookup.py).
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pyarrow as pa
import pyarrow.compute as pc

from lockstep.accounts import Role
from lockstep.pipeline.delta_types import arrow_schema
from lockstep.pipeline.names import quoted
from lockstep.pipeline.published_rows import value_decoder
from lockstep.pipeline.result import Result
from lockstep.project import read_project_file
from lockstep.settings import Settings
from lockstep.sources.errors import PostgresUnavailableError
from lockstep.sources.kept_connection import answer
from lockstep.sources.postgres import RoleConnection, role_connection
from lockstep.sources.python_worker import spare_garbage_collection

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECTIONS_MAX = 8
"""Partitions of a look-up, so connections that ask at once; more take the shop's own processors."""
ROWS_OF_A_TASK = 500
"""A second task costs about what PostgreSQL takes for as many rows: 20 ms."""
ROWS_OF_A_STATEMENT = 2_000
"""70 ms of PostgreSQL's time; larger ones are no quicker."""
DELETED = "d"

_STATEMENT = Path("include", "postgres", "stream_reads", "order_lookup.sql")
MOMENT = ("snapshot", "wal_lsn")
"""When a row was looked up: the statement's snapshot, and a position of the log after it."""
_BESIDES = {
    "order_committed_at": "timestamp",
    "newest_committed_at": "timestamp",
    "is_whole": "boolean",
    "snapshot": "string",
    "wal_lsn": "bigint",
}
"""What the statement says of each row, behind the result's columns: Delta types by name."""


def seen_columns(result: Result) -> dict[str, str]:
    """Name and Delta type of each column of the statement, in their order.

    It asks for one key column; lists and structs come as JSON, as value_decoder reads it.
    """
    return {**result.columns, **_BESIDES}


def look_up_rows(
    spark: "SparkSession", settings: Settings, result: Result, changes: pa.Table
) -> pa.Table:
    """The changed rows' values as the database has them now, and whether they may have raced.

    changes: the key (one column), op (c, u, d), tx_id (null for rows of the snapshot), committed_at
        (when the database committed the change, microseconds, UTC); a key may be there several
        times.
    Returns the result's values, is_raced, snapshot (pg_snapshot, as text) and wal_lsn, in the order
    of the changes. A delete has nulls and asks nothing. A row that was not there has null values,
    and is marked.
    Raises PostgresUnavailableError.
    """
    [key] = result.key
    alive = changes.filter(pc.not_equal(changes["op"], DELETED))
    keys = pc.unique(alive[key])
    columns = seen_columns(result)
    seen = _seen(spark, settings, columns, pa.table({key: keys})) if len(keys) else None
    return judged(changes, arrow_schema(columns).empty_table() if seen is None else seen, result)


def judged(changes: pa.Table, seen: pa.Table, result: Result) -> pa.Table:
    """The changes' columns as look_up_rows returns them, from what was seen of the rows. Pure.

    A change of the log has been seen as it was only if the fact's row is the very version that its
    transaction wrote (an older one: the commit was not yet visible), everything that the row names
    is there, and none of it was committed later. Rows of the snapshot have no version of their own
    to compare; the snapshot's time stands for it.
    """
    [key] = result.key
    is_deleted = pc.equal(changes["op"], DELETED)
    found = pc.index_in(changes[key], value_set=seen[key].combine_chunks())
    place = pc.if_else(is_deleted, pa.scalar(None, pa.int32()), found)
    of_row = seen.take(place)
    then = changes["committed_at"]
    is_own_version = pc.or_kleene(
        pc.is_null(changes["tx_id"]), pc.equal(of_row["order_committed_at"], then)
    )
    is_as_then = pc.and_(
        pc.and_(of_row["is_whole"], is_own_version),
        # unknown: PostgreSQL has forgotten when, since it was long ago
        pc.fill_null(pc.less_equal(of_row["newest_committed_at"], then), True),
    )
    # null: the row, or its version's time, is not known, so nor is what happened since
    is_raced = pc.and_not(pc.invert(pc.fill_null(is_as_then, False)), is_deleted)
    columns = of_row.select([*result.values, *MOMENT])
    return columns.add_column(len(result.values), "is_raced", is_raced)


def _seen(
    spark: "SparkSession", settings: Settings, columns: Mapping[str, str], keys: pa.Table
) -> pa.Table:
    """What the database has of the rows of these keys, read by the executors."""
    from pyspark.errors import PythonException

    tasks = min(
        -(-len(keys) // ROWS_OF_A_TASK), CONNECTIONS_MAX, spark.sparkContext.defaultParallelism
    )
    asked = spark.createDataFrame(keys).coalesce(tasks)
    target = role_connection(settings, Role.BATCH_READER)
    ddl = ", ".join(f"{quoted(name)} {kind}" for name, kind in columns.items())
    try:
        return asked.mapInArrow(_reading(target, arrow_schema(columns)), ddl).toArrow()
    except PythonException as error:
        raise _unavailable(error) or error from error


def _unavailable(error: Exception) -> PostgresUnavailableError | None:
    """The worker's own error, which Spark passes on as text."""
    name = re.escape(PostgresUnavailableError.__name__)
    found = re.search(rf"{name}: (.+)", str(error))
    return PostgresUnavailableError(found[1]) if found else None


def _reading(
    target: RoleConnection, schema: pa.Schema
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What an executor does: keys in, a row for each out.

    Spark sends it to the Python workers with all that it refers to: one role's connection.
    """

    def read(parts: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        spare_garbage_collection()
        for part in parts:
            for first in range(0, part.num_rows, ROWS_OF_A_STATEMENT):
                ids = part.column(0).slice(first, ROWS_OF_A_STATEMENT).to_pylist()
                rows = answer(target, lambda c, ids=ids: _rows(c, ids))
                yield _as_arrow(rows, schema)

    return read


def _rows(connection: psycopg.Connection, ids: list[int]) -> list[tuple]:
    with connection.cursor(binary=True) as cursor:
        return cursor.execute(_statement(), {"ids": ids}, prepare=True).fetchall()


@cache
def _statement() -> str:
    return read_project_file(_STATEMENT)


def _as_arrow(rows: list[tuple], schema: pa.Schema) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [_array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(values: Iterable, type_: pa.DataType) -> pa.Array:
    if pa.types.is_nested(type_):
        read = value_decoder(type_)
        values = [None if text is None else read(text) for text in values]
    return pa.array(values, type_)
