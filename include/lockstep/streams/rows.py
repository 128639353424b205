"""Rows of a change log, as an Arrow table of contracts.CHANGE_LOG_COLUMNS. Pure."""

from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa

from lockstep.cdc.order_records import PublishedOrder
from lockstep.pipeline.delta_types import arrow_schema
from lockstep.pizzeria import CHANGE_LOG_COLUMNS, CHANGE_LOG_PARTITION, LOOK_UP_COLUMNS
from lockstep.streams.fold import OrderChange
from lockstep.streams.table_rows import RowVersion

SCHEMA = arrow_schema(CHANGE_LOG_COLUMNS)
LOOK_UP_SCHEMA = arrow_schema(LOOK_UP_COLUMNS)
_TIME = pa.timestamp("us", "UTC")
_DAY_US = 86_400_000_000


def no_rows() -> pa.Table:
    return SCHEMA.empty_table()


def published_columns(changes: Sequence[OrderChange]) -> dict[str, pa.Array]:
    """The enriched columns as the database itself published them; nulls for a delete."""
    rows = [c.row for c in changes]
    return {
        "order_time": _array("order_time", [row and row.order_time for row in rows]),
        "client_name": _array("client_name", [row and row.client_name for row in rows]),
        "table_name": _array("table_name", [row and row.table_name for row in rows]),
        "pizzas": _array("pizzas", [row and _pizzas(row) for row in rows]),
    }


def _pizzas(row: PublishedOrder) -> list[dict[str, object]] | None:
    if row.pizzas is None:
        return None
    return [{"pizza": p.pizza, "price": p.price} for p in row.pizzas]


def change_log_rows(
    changes: Sequence[OrderChange], enriched: dict[str, pa.Array], seen_us: int
) -> pa.Table:
    """The changes with their enriched columns (of the same length and order), as the log has them.

    enriched: order_time, client_name, table_name, pizzas; of mode lookup is_raced and look_up, too.
    seen_us: when the driver had read the micro-batch. written_at is stamped later (`stamped`).
    """
    columns = {
        "order_id": pa.array([c.order_id for c in changes], pa.int64()),
        **commit_columns(changes, seen_us),
        **enriched,
    }
    schema = LOOK_UP_SCHEMA if "look_up" in enriched else SCHEMA
    return pa.table([columns[name] for name in schema.names], schema=schema)


def commit_columns(
    changes: Sequence[OrderChange | RowVersion], seen_us: int
) -> dict[str, pa.Array]:
    """What every change log has of the commits of its rows, by name; written_at as yet seen_us."""
    count = len(changes)
    committed = np.fromiter((c.committed_us for c in changes), np.int64, count)
    seen = pa.array(np.full(count, seen_us, np.int64)).cast(_TIME)
    return {
        "op": pa.array([c.op for c in changes], pa.string()),
        "tx_id": pa.array([c.tx_id for c in changes], pa.int64()),
        "commit_lsn": pa.array([c.commit_lsn for c in changes], pa.int64()),
        "is_raced": pa.array(np.zeros(count, np.bool_)),
        "committed_at": pa.array(committed).cast(_TIME),
        "captured_at": pa.array([c.captured_us for c in changes], pa.int64()).cast(_TIME),
        "seen_at": seen,
        "written_at": seen,
        CHANGE_LOG_PARTITION: pa.array((committed // _DAY_US).astype(np.int32)).cast(pa.date32()),
    }


def stamped(rows: pa.Table, written_at: datetime) -> pa.Table:
    """The rows of a change log with the moment at which they are handed to Delta."""
    at_us = round(written_at.astimezone(UTC).timestamp() * 1_000_000)
    column = pa.array(np.full(rows.num_rows, at_us, np.int64)).cast(_TIME)
    place = rows.schema.get_field_index("written_at")
    return rows.set_column(place, rows.schema.field(place), column)


def _array(name: str, values: list) -> pa.Array:
    return pa.array(values, SCHEMA.field(name).type)
