"""Replaces some rows of a window of a Delta table in a single commit, without Spark."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, write_deltalake
from deltalake.exceptions import DeltaError

from lockstep.errors import LakehouseError

# The table is Spark's: it alone writes checkpoints of its log and shortens it.
_NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)


def replace_rows(
    table: DeltaTable, rows: Sequence[Mapping[str, Any]], replaced: str, commit_metadata: str
) -> None:
    """Make `rows` the only ones for which `replaced` holds, and leave every other row as it is.

    rows: for which it holds; columns of the table that they lack are null in them.
    replaced: a condition in SQL of delta-rs, on the window (window_conditions.inside_for_write) and
        the keys (RowKeys.condition). Of keys without a row the table has none afterwards.
    commit_metadata: goes into the commit's userMetadata, as it is.

    One atomic commit: a process killed at any moment leaves the table as it was. Files that hold
    one of the rows are written again, with the same other rows.
    Raises LakehouseError when the table cannot be written, or when another process changed the
    same hours since `table` was opened.
    """
    columns = pa.schema(table.schema().to_arrow())
    content = pa.Table.from_pylist(list(rows), columns)
    try:
        write_deltalake(
            table,
            content,
            mode="overwrite",
            predicate=replaced,
            commit_properties=CommitProperties(custom_metadata={"userMetadata": commit_metadata}),
            post_commithook_properties=_NO_HOOKS,
        )
    except (DeltaError, OSError) as error:
        raise LakehouseError(
            f"the table {table.table_uri} cannot be written: {error}; it is as it was"
        ) from error
