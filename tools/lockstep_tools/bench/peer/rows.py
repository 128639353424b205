"""The rows that a side wrote, each with its commit and the moment it could be read."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lockstep_tools.bench.peer.paimon import visible_ns
from lockstep_tools.errors import MeasurementError


@dataclass(frozen=True)
class Rows:
    """Of equal length. committed_us: by Debezium (source.ts_us). Both times since the epoch."""

    order_ids: NDArray[np.int64]
    committed_us: NDArray[np.int64]
    visible_ns: NDArray[np.int64]

    @property
    def seconds(self) -> NDArray[np.float64]:
        """From each row's commit until it could be read."""
        return (self.visible_ns - self.committed_us * 1000) / 1e9

    def since(self, moment_us: int) -> "Rows":
        """Those committed from this moment on."""
        kept = self.committed_us >= moment_us
        return Rows(self.order_ids[kept], self.committed_us[kept], self.visible_ns[kept])


Committed = Sequence[tuple[int, int]]
"""Order and commit of each of the outbox's rows, in the change topic's order."""


def rows_of_snapshots(totals: Sequence[int], moments_ns: Sequence[int], rows: Committed) -> Rows:
    """Of Paimon's snapshots. Raises MeasurementError when they do not have these rows exactly."""
    pairs = np.array(rows, np.int64).reshape(-1, 2)
    return Rows(pairs[:, 0], pairs[:, 1], visible_ns(totals, moments_ns, len(rows)))


def rows_of_records(values: Sequence[bytes], moments_ns: Sequence[int]) -> Rows:
    """Of the records that Flink wrote to a topic."""
    records = [json.loads(value) for value in values]
    pairs = [(record["order_id"], record["committed_us"]) for record in records]
    found = np.array(pairs, np.int64).reshape(-1, 2)
    return Rows(found[:, 0], found[:, 1], np.array(moments_ns, np.int64))


def require_each_once(side: str, rows: Rows, expected: int) -> None:
    """Raise MeasurementError unless there is a row of each of so many orders, and no other.

    The load changes no order again, so an order that comes twice was written twice.
    """
    distinct = len(np.unique(rows.order_ids))
    if (len(rows.order_ids), distinct) != (expected, expected):
        raise MeasurementError(
            f"{side} wrote {len(rows.order_ids):,} rows of {distinct:,} orders, and the database "
            f"has {expected:,}"
        )
