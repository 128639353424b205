"""The look-up join: what the view says, now, of the rows that a micro-batch changed.

Of few rows the driver asks PostgreSQL itself, over a connection that its thread keeps; of many
Spark's executors do, each Python worker over its own. The answer is of now and the change of then,
so what may have happened in between is marked, by commit timestamps: transaction ids follow the
order of beginning, not of committing. Debezium's source.ts_us is that timestamp, to the microsecond
(tests/sources/test_row_lookup.py).
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa
import pyarrow.compute as pc

from lockstep.pipeline.catalog import Catalog
from lockstep.pipeline.delta_types import arrow_schema
from lockstep.pipeline.names import quoted
from lockstep.pipeline.plan import Plan
from lockstep.pipeline.published_rows import PublishedRow, published_decoder
from lockstep.pipeline.result import Result
from lockstep.pipeline.row_keys import Key
from lockstep.sources.errors import PostgresUnavailableError
from lockstep.sources.kept_connection import answer
from lockstep.sources.lookup_statement import look_up_statement
from lockstep.sources.postgres import RoleConnection, connect_to
from lockstep.sources.python_worker import spare_garbage_collection

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECTIONS_MAX = 8
"""Partitions of a look-up, so connections that ask at once; more take the source's own processors.
"""
ROWS_OF_A_TASK = 500
"""A second task costs about what PostgreSQL takes for as many rows: 20 ms."""
ROWS_OF_THE_DRIVER = 500
"""So many it asks for itself: the first task, to a Python worker and back, takes 200 ms."""
ROWS_OF_A_STATEMENT = 2_000
"""70 ms of PostgreSQL's time; larger ones are no quicker."""
DELETED = "d"

MOMENT = ("snapshot", "wal_lsn")
"""When a row was looked up: the statement's snapshot, and a position of the log after it."""
_MORE = {
    "fact_committed_at": "timestamp",
    "newest_committed_at": "timestamp",
    "is_whole": "boolean",
    "snapshot": "string",
    "wal_lsn": "bigint",
}
"""What is seen of each row, behind the result's columns: Delta types by name."""


def seen_columns(result: Result) -> dict[str, str]:
    """Name and Delta type of each column of what is seen: the result's, then of when."""
    return {**result.columns, **_MORE}


@dataclass(frozen=True)
class Question:
    """All that an executor needs to ask: as whom, what, and how the answer is decoded."""

    target: RoleConnection
    statement: str
    result: Result


class RowLookup:
    """Looks up rows of one pipeline. reader: the source's role that reads.

    The source's database is asked for its view when the first rows are looked up.
    """

    def __init__(
        self,
        spark: "SparkSession",
        catalog: Catalog,
        plan: Plan,
        reader: Callable[[], RoleConnection],
    ) -> None:
        self._spark, self._catalog, self._plan, self._reader = spark, catalog, plan, reader

    @cached_property
    def question(self) -> Question:
        """Raises as lookup_statement.look_up_statement does."""
        target = self._reader()
        with connect_to(target, application_name="lockstep look-up") as connection:
            statement = look_up_statement(connection, self._catalog, self._plan, target.role)
        return Question(target, statement, self._plan.result)

    def rows(self, changes: pa.Table) -> pa.Table:
        """The changed rows' values as the database has them now, and whether they may have raced.

        changes: the key's columns, op (c, u, d), tx_id (null for rows of the snapshot),
            committed_at (when the database committed the change, microseconds, UTC); a key may be
            there several times.
        Returns the result's values, is_raced, snapshot (pg_snapshot, as text) and wal_lsn, in the
        order of the changes. A delete has nulls and asks nothing. A row that was not there has null
        values, and is marked.
        Raises PostgresUnavailableError, and what `question` raises.
        """
        result = self._plan.result
        alive = changes.filter(pc.not_equal(changes["op"], DELETED))
        keys = alive.group_by(list(result.key)).aggregate([])
        seen = arrow_schema(seen_columns(result)).empty_table()
        if len(keys):
            seen = seen_now(self._spark, self.question, keys)
        return judged(changes, seen, result)


def judged(changes: pa.Table, seen: pa.Table, result: Result) -> pa.Table:
    """The changes' columns as RowLookup.rows returns them, from what was seen of the rows. Pure.

    A change of the log has been seen as it was only if the fact's row is the very version that its
    transaction wrote (an older one: the commit was not yet visible), everything that the row names
    is there, and none of it was committed later. Rows of the snapshot have no version of their own
    to compare; the snapshot's time stands for it.
    """
    is_deleted = pc.equal(changes["op"], DELETED)
    places = {key: place for place, key in enumerate(_keys_of(seen, result))}
    found = pa.array([places.get(key) for key in _keys_of(changes, result)], pa.int32())
    place = pc.if_else(is_deleted, pa.scalar(None, pa.int32()), found)
    of_row = seen.take(place)
    then = changes["committed_at"]
    is_own_version = pc.or_kleene(
        pc.is_null(changes["tx_id"]), pc.equal(of_row["fact_committed_at"], then)
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


def _keys_of(rows: pa.Table, result: Result) -> Iterable[Key]:
    return zip(*(rows[name].to_pylist() for name in result.key), strict=True)


def seen_now(spark: "SparkSession", question: Question, keys: pa.Table) -> pa.Table:
    """What the database has of the rows of these keys: seen_columns."""
    from pyspark.errors import PythonException

    if len(keys) <= ROWS_OF_THE_DRIVER:
        return pa.Table.from_batches(_read(question, keys.combine_chunks().to_batches()))
    tasks = min(
        -(-len(keys) // ROWS_OF_A_TASK), CONNECTIONS_MAX, spark.sparkContext.defaultParallelism
    )
    asked = spark.createDataFrame(keys).coalesce(tasks)
    columns = seen_columns(question.result)
    ddl = ", ".join(f"{quoted(name)} {kind}" for name, kind in columns.items())
    try:
        return asked.mapInArrow(_reading(question), ddl).toArrow()
    except PythonException as error:
        raise _unavailable(error) or error from error


def _unavailable(error: Exception) -> PostgresUnavailableError | None:
    """The worker's own error, which Spark passes on as text."""
    name = re.escape(PostgresUnavailableError.__name__)
    found = re.search(rf"{name}: (.+)", str(error))
    return PostgresUnavailableError(found[1]) if found else None


def _reading(
    question: Question,
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What an executor does.

    Spark sends it to the Python workers with all that it refers to: one role's connection.
    """

    def read(parts: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        spare_garbage_collection()
        yield from _read(question, parts)

    return read


def _read(question: Question, parts: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Keys in, a row for each out."""
    for part in parts:
        for first in range(0, part.num_rows, ROWS_OF_A_STATEMENT):
            asked = part.slice(first, ROWS_OF_A_STATEMENT)
            keys = list(zip(*(column.to_pylist() for column in asked.columns), strict=True))
            rows = answer(question.target, lambda c, keys=keys: _rows(c, question, keys))
            yield _as_arrow(keys, rows, question.result)


def _rows(connection: psycopg.Connection, question: Question, keys: Sequence[Key]) -> list[tuple]:
    texts = [[_text(value) for value in column] for column in zip(*keys, strict=True)]
    with psycopg.RawCursor(connection) as cursor:
        return cursor.execute(question.statement, texts, prepare=True).fetchall()


def _text(value: Any) -> str:
    """As PostgreSQL reads it, of any type."""
    return value.isoformat() if isinstance(value, date) else str(value)


def _as_arrow(keys: Sequence[Key], rows: Iterable[tuple], result: Result) -> pa.RecordBatch:
    """A row for each key, in their order; nulls, but for the moment, of what is not there.

    rows: as lookup_statement.py says. Raises ValueError for a row that is none of the result.
    """
    decode = _decoder(tuple(result.columns.items()), result.key, result.time)
    seen: dict[Key, tuple] = {}
    times: dict[Key, tuple] = {}
    moment: tuple = (None, None)
    for text, *more in rows:
        if text is None:
            moment = tuple(more[3:])
            continue
        row = decode(text)
        if row.values is None:
            times[row.key] = tuple(more[:3])
        else:
            seen[row.key] = row.values
    nothing = (None,) * len(result.values)
    names = (*result.key, *result.values, *_MORE)
    found = [
        (*key, *seen.get(key, nothing), *times[key], *moment)
        if key in seen and key in times
        else (*key, *nothing, None, None, None, *moment)
        for key in keys
    ]
    columns = dict(zip(names, zip(*found, strict=True), strict=True))
    schema = arrow_schema(seen_columns(result))
    arrays = [pa.array(columns[one.name], one.type) for one in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


@cache
def _decoder(
    columns: tuple[tuple[str, str], ...], key: tuple[str, ...], time: str | None
) -> Callable[[str], PublishedRow]:
    """Kept from one task to the next."""
    return published_decoder(Result(dict(columns), key, time))
