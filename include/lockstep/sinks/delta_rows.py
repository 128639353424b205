"""Replaces rows of an hourly Delta table in a single commit, without Spark."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, write_deltalake
from deltalake.exceptions import DeltaError

from lockstep.errors import LakehouseError

_NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
_CHECKPOINT_COMMITS = 10
"""As Spark's own: reading the table replays at most so many commits."""


def replace_rows(
    table: DeltaTable, rows: Sequence[Mapping[str, Any]], replaced: str, commit_metadata: str
) -> None:
    """As `replace`, by rows that may lack columns of the table: these are null in them."""
    columns = pa.schema(table.schema().to_arrow())
    replace(table, pa.Table.from_pylist(list(rows), columns), replaced, commit_metadata)


def replace(table: DeltaTable, rows: pa.Table, replaced: str, commit_metadata: str) -> None:
    """Make `rows` the only ones for which `replaced` holds, and leave every other row as it is.

    rows: for which it holds, in the table's columns.
    replaced: a condition in SQL of delta-rs, on the window (window_conditions.inside_for_write) and
        maybe on the keys (RowKeys.condition). Of keys without a row the table has none afterwards.
    commit_metadata: goes into the commit's userMetadata, as it is.

    One atomic commit: a process killed at any moment leaves the table as it was. Files that hold
    one of the rows are written again, with the same other rows. The log is shortened before each
    tenth commit, so that a failure to do so changes no row.
    Raises LakehouseError when the table cannot be written, or when another process changed the
    same hours since `table` was opened.
    """
    try:
        if table.version() % _CHECKPOINT_COMMITS == 0:
            table.create_checkpoint()
            table.cleanup_metadata()
        write_deltalake(
            table,
            rows,
            mode="overwrite",
            predicate=replaced,
            commit_properties=CommitProperties(custom_metadata={"userMetadata": commit_metadata}),
            post_commithook_properties=_NO_HOOKS,
        )
    except (DeltaError, OSError) as error:
        raise LakehouseError(
            f"the table {table.table_uri} cannot be written: {error}; it is as it was"
        ) from error
