"""The look-up join: what the view says, now, of the orders that a micro-batch changed.

Spark's executors ask PostgreSQL, each Python worker over a connection that it keeps; the driver
only compares times. The answer is of now and the change of then, so what may have happened in
between is marked, by commit timestamps: transaction ids follow the order of beginning, not of
committing. Debezium's source.ts_us is that timestamp, to the microsecond
(tests/sources/test_order_lookup.py).
"""

import re
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import psycopg
import pyarrow as pa
import pyarrow.compute as pc

from lockstep.accounts import Role
from lockstep.errors import PostgresUnavailableError
from lockstep.pizzeria import CHANGE_LOG_COLUMNS
from lockstep.project import read_project_file
from lockstep.settings import Settings
from lockstep.sources.kept_connection import answer
from lockstep.sources.postgres import RoleConnection, role_connection
from lockstep.sources.python_worker import spare_garbage_collection

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECTIONS_MAX = 8
"""Partitions of a look-up, so connections that ask at once; more take the shop's own processors."""
ORDERS_OF_A_TASK = 500
"""A second task costs about what PostgreSQL takes for as many orders: 20 ms."""
ORDERS_OF_A_STATEMENT = 2_000
"""70 ms of PostgreSQL's time; larger ones are no quicker."""
DELETED = "d"

_STATEMENT = Path("include", "postgres", "stream_reads", "order_lookup.sql")
_TIME = pa.timestamp("us", "UTC")
_PIZZAS = pa.list_(pa.struct([("pizza", pa.string()), ("price", pa.decimal128(10, 2))]))
ENRICHED = pa.schema(
    [
        ("order_time", _TIME),
        ("client_name", pa.string()),
        ("table_name", pa.string()),
        ("pizzas", _PIZZAS),
    ]
)
SEEN = pa.schema(
    [
        ("order_id", pa.int64()),
        *ENRICHED,
        ("order_committed_at", _TIME),
        ("newest_committed_at", _TIME),
        ("is_whole", pa.bool_()),
        ("snapshot", pa.string()),
        ("wal_lsn", pa.int64()),
    ]
)
MOMENT = ("snapshot", "wal_lsn")
"""When an order was looked up: the statement's snapshot, and a position of the log after it."""
_SEEN_TYPES = {
    **CHANGE_LOG_COLUMNS,
    "order_committed_at": "timestamp",
    "newest_committed_at": "timestamp",
    "is_whole": "boolean",
    "snapshot": "string",
    "wal_lsn": "bigint",
}
_SEEN_DDL = ", ".join(f"{name} {_SEEN_TYPES[name]}" for name in SEEN.names)


class _Priced(msgspec.Struct):
    pizza: str | None
    price: Decimal | None


_LISTED = msgspec.json.Decoder(list[_Priced])


def look_up_orders(spark: "SparkSession", settings: Settings, orders: pa.Table) -> pa.Table:
    """The orders' enriched columns as the database has them now, and whether they may have raced.

    orders: order_id, op (c, u, d), tx_id (null for rows of the snapshot), committed_at (when the
        database committed the change, microseconds, UTC); an order may be there several times.
    Returns order_time, client_name, table_name, pizzas, is_raced, snapshot (pg_snapshot, as text)
    and wal_lsn, in the order of the changes. A delete has nulls and asks nothing. An order that was
    not there has nulls up to pizzas, and is marked.
    Raises PostgresUnavailableError.
    """
    alive = orders.filter(pc.not_equal(orders["op"], DELETED))
    ids = pc.unique(alive["order_id"])
    return judged(orders, _seen(spark, settings, ids) if len(ids) else SEEN.empty_table())


def judged(orders: pa.Table, seen: pa.Table) -> pa.Table:
    """The changes' columns as look_up_orders returns them, from what was seen of the orders. Pure.

    A change of the log has been seen as it was only if the order's row is the very version that its
    transaction wrote (an older one: the commit was not yet visible), everything that the order
    names is there, and none of it was committed later. Rows of the snapshot have no version of
    their own to compare; the snapshot's time stands for it.
    """
    is_deleted = pc.equal(orders["op"], DELETED)
    found = pc.index_in(orders["order_id"], value_set=seen["order_id"].combine_chunks())
    place = pc.if_else(is_deleted, pa.scalar(None, pa.int32()), found)
    of_order = seen.take(place)
    then = orders["committed_at"]
    is_own_version = pc.or_kleene(
        pc.is_null(orders["tx_id"]), pc.equal(of_order["order_committed_at"], then)
    )
    is_as_then = pc.and_(
        pc.and_(of_order["is_whole"], is_own_version),
        # unknown: PostgreSQL has forgotten when, since it was long ago
        pc.fill_null(pc.less_equal(of_order["newest_committed_at"], then), True),
    )
    # null: the order, or its version's time, is not known, so nor is what happened since
    is_raced = pc.and_not(pc.invert(pc.fill_null(is_as_then, False)), is_deleted)
    columns = of_order.select([*ENRICHED.names, *MOMENT])
    return columns.add_column(len(ENRICHED), "is_raced", is_raced)


def _seen(spark: "SparkSession", settings: Settings, ids: pa.ChunkedArray) -> pa.Table:
    """What the database has of these orders, read by the executors."""
    from pyspark.errors import PythonException

    tasks = min(
        -(-len(ids) // ORDERS_OF_A_TASK), CONNECTIONS_MAX, spark.sparkContext.defaultParallelism
    )
    asked = spark.createDataFrame(pa.table({"order_id": ids})).coalesce(tasks)
    target = role_connection(settings, Role.BATCH_READER)
    try:
        return asked.mapInArrow(_reading(target), _SEEN_DDL).toArrow()
    except PythonException as error:
        raise _unavailable(error) or error from error


def _unavailable(error: Exception) -> PostgresUnavailableError | None:
    """The worker's own error, which Spark passes on as text."""
    name = re.escape(PostgresUnavailableError.__name__)
    found = re.search(rf"{name}: (.+)", str(error))
    return PostgresUnavailableError(found[1]) if found else None


def _reading(
    target: RoleConnection,
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What an executor does: ids in, a row for each out.

    Spark sends it to the Python workers with all that it refers to: one role's connection.
    """

    def read(parts: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        spare_garbage_collection()
        for part in parts:
            for first in range(0, part.num_rows, ORDERS_OF_A_STATEMENT):
                ids = part.column(0).slice(first, ORDERS_OF_A_STATEMENT).to_pylist()
                rows = answer(target, lambda c, ids=ids: _rows(c, ids))
                yield _as_arrow(rows)

    return read


def _rows(connection: psycopg.Connection, ids: list[int]) -> list[tuple]:
    with connection.cursor(binary=True) as cursor:
        return cursor.execute(_statement(), {"ids": ids}, prepare=True).fetchall()


@cache
def _statement() -> str:
    return read_project_file(_STATEMENT)


def _as_arrow(rows: list[tuple]) -> pa.RecordBatch:
    columns = dict(zip(SEEN.names, zip(*rows, strict=True), strict=True)) if rows else {}
    arrays = [
        _pizzas(columns.get(field.name, ()))
        if field.name == "pizzas"
        else pa.array(columns.get(field.name, ()), field.type)
        for field in SEEN
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SEEN)


def _pizzas(texts: Iterable[str | None]) -> pa.Array:
    """The view's JSON as lists of pizza and price, in the order's own sequence; null stays null."""
    lists = [None if text is None else _LISTED.decode(text) for text in texts]
    items = [item for listed in lists for item in listed or ()]
    names = pa.array([item.pizza for item in items], pa.string())
    prices = pa.array([item.price for item in items], pa.decimal128(10, 2))
    structs = pa.StructArray.from_arrays([names, prices], fields=list(_PIZZAS.value_type))
    ends = [0]
    for listed in lists:
        ends.append(ends[-1] + len(listed or ()))
    is_null = pa.array([listed is None for listed in lists], pa.bool_())
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), structs, _PIZZAS, mask=is_null)
