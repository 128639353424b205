"""Rows of a change log, as an Arrow table. Pure; where their values come from is never here."""

from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lockstep.model.modes import StreamMode
from lockstep.pipeline.delta_types import arrow_schema
from lockstep.pipeline.result import Result
from lockstep.pipeline.result_tables import CHANGE_PARTITION, change_columns
from lockstep.streams.table_rows import RowVersion

_TIME = pa.timestamp("us", "UTC")
_DAY_US = 86_400_000_000


def change_log_columns(result: Result, mode: StreamMode) -> dict[str, str]:
    """Name and Delta type of each column of a mode's change log."""
    return {**result.columns, **change_columns(mode)}


def change_log_schema(result: Result, mode: StreamMode) -> pa.Schema:
    """The columns of a mode's change log: the result's, and what each says of its commits."""
    return arrow_schema(change_log_columns(result, mode))


def published_columns(changes: Sequence[RowVersion], result: Result) -> dict[str, pa.Array]:
    """The result's values as they were published with the changes; nulls for a delete."""
    nothing = (None,) * len(result.values)
    rows = [nothing if change.row.values is None else change.row.values for change in changes]
    return {
        name: pa.array([row[place] for row in rows], result.schema.field(name).type)
        for place, name in enumerate(result.values)
    }


def change_log_rows(
    changes: Sequence[RowVersion],
    enriched: dict[str, pa.Array],
    seen_us: int,
    key: Sequence[str],
    schema: pa.Schema,
) -> pa.Table:
    """The changes with their enriched columns (of the same length and order), as the log has them.

    enriched: the result's values; of mode lookup is_raced and look_up, too. seen_us: when the
    driver had read them. written_at is stamped later (`stamped`). key: the result's key
    columns. schema: the log's.
    """
    columns = {**key_columns(changes, key, schema), **commit_columns(changes, seen_us), **enriched}
    return pa.table([columns[name] for name in schema.names], schema=schema)


def key_columns(
    changes: Sequence[RowVersion], key: Sequence[str], schema: pa.Schema
) -> dict[str, pa.Array]:
    """The key of each change, by column."""
    return {
        name: pa.array([change.row.key[place] for change in changes], schema.field(name).type)
        for place, name in enumerate(key)
    }


def commit_columns(changes: Sequence[RowVersion], seen_us: int) -> dict[str, pa.Array]:
    """What every change log has of the commits of its rows, by name; written_at as yet seen_us."""
    count = len(changes)
    committed = np.fromiter((c.committed_us for c in changes), np.int64, count)
    captured = np.fromiter((c.captured_us for c in changes), np.int64, count)
    seen = _times(np.full(count, seen_us, np.int64))
    return {
        "op": pa.array([c.op for c in changes], pa.string()),
        "tx_id": pa.array([c.tx_id for c in changes], pa.int64()),
        "commit_lsn": pa.array([c.commit_lsn for c in changes], pa.int64()),
        "is_raced": pa.array(np.zeros(count, np.bool_)),
        "committed_at": _times(committed),
        "captured_at": _times(captured),
        "seen_at": seen,
        "written_at": seen,
        CHANGE_PARTITION: pa.array((committed // _DAY_US).astype(np.int32)).view(pa.date32()),
    }


def stamped(rows: pa.Table, written_at: datetime) -> pa.Table:
    """The rows of a change log with the moment at which they are handed to Delta."""
    at_us = round(written_at.astimezone(UTC).timestamp() * 1_000_000)
    column = _times(np.full(rows.num_rows, at_us, np.int64))
    place = rows.schema.get_field_index("written_at")
    return rows.set_column(place, rows.schema.field(place), column)


def _times(microseconds: NDArray[np.int64]) -> pa.Array:
    return pa.array(microseconds).view(_TIME)
