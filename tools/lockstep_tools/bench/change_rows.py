"""The rows that a stream wrote in a benchmark, each with the moment it could be read."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from lockstep_tools.soak import delta_log

COLUMNS = ["order_id", "commit_lsn", "committed_at", "captured_at", "seen_at", "written_at"]
VISIBLE_AT = "visible_at"
_TIME = pa.timestamp("us", "UTC")


def rows_seen(folder: Path, seen_ns: Mapping[int, int]) -> pa.Table:
    """COLUMNS and visible_at of all rows that these versions added, in the versions' order.

    seen_ns: by version, nanoseconds since the epoch. Raises LakehouseError when a file is gone.
    """
    parts = []
    for version, ns in sorted(seen_ns.items()):
        commit = delta_log.read_commit(folder, version)
        if commit is None or commit.is_rewrite:
            continue
        for file in commit.added:
            rows = delta_log.read_rows(folder, file, COLUMNS)
            moments = pa.array(np.full(rows.num_rows, ns // 1000, np.int64)).cast(_TIME)
            parts.append(rows.append_column(VISIBLE_AT, moments))
    return pa.concat_tables(parts) if parts else _no_rows()


def _no_rows() -> pa.Table:
    numbers = {name: pa.array([], pa.int64()) for name in COLUMNS[:2]}
    return pa.table({**numbers, **{n: pa.array([], _TIME) for n in (*COLUMNS[2:], VISIBLE_AT)}})
