"""Latency of change-log rows, from the database's commit to readable in Delta, hop by hop.

The hops of one row add up to its total. Nothing here knows a clock, Spark, or where figures go.
"""

import threading
from collections import OrderedDict
from datetime import datetime

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lockstep.supervise.heartbeat import Latency, Percentiles

TOTAL = "total"
HOPS = ("capture", "transport", "process", "write")
"""In order: the commit until Debezium read it; Kafka, the reader, and
waiting for the write before; decoding and joining; the Delta commit."""
_TIMES = ("committed_at", "captured_at", "seen_at", "written_at")
"""When each hop begins; it ends when the next begins, the last when the row can be read."""
_KINDS = (TOTAL, *HOPS)

WINDOW_SECONDS = 300
SLICE_SECONDS = 10
"""Old figures leave the window a slice at a time."""
QUANTILES = (0.50, 0.95, 0.99)
"""In the order of Percentiles' fields."""

# Counts in buckets that grow by 2 %, so that a window takes 1 MB whatever the rate, every row
# counts as one, and a quantile is off by 1 % at the most.
_GROWTH = 1.02
_SECONDS_MIN = 1e-4
_SECONDS_MAX = 1e6
_BUCKETS = int(np.ceil(np.log(_SECONDS_MAX / _SECONDS_MIN) / np.log(_GROWTH))) + 1


def latency_seconds(
    rows: pa.Table, visible_at: datetime | NDArray[np.datetime64]
) -> dict[str, NDArray[np.float64]]:
    """Seconds by TOTAL and each of HOPS, for the rows that came by a transaction, in their order.

    rows: change-log columns, at least commit_lsn and the four times; rows of the initial snapshot
        (commit_lsn 0) were not committed at a known time and are left out.
    visible_at: when all of them, or each of them (UTC, same length), could be read.
    """
    live = rows["commit_lsn"].to_numpy() > 0
    times = [_microseconds(rows[name])[live] for name in _TIMES]
    times.append(_visible_microseconds(visible_at, live))
    seconds = {hop: (times[i + 1] - times[i]) / 1e6 for i, hop in enumerate(HOPS)}
    return {TOTAL: (times[-1] - times[0]) / 1e6, **seconds}


class LatencyWindow:
    """Latencies of the rows that became readable in the last five minutes; any thread may use it.

    `add` is called by the writer after each commit (1,000 rows: under 1 ms), `snapshot` by what
    reports.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._slices: OrderedDict[int, NDArray[np.int64]] = OrderedDict()

    def add(self, rows: pa.Table, visible_at: datetime) -> None:
        """Count the rows of one commit, which could be read at visible_at. See latency_seconds."""
        seconds = latency_seconds(rows, visible_at)
        counts = np.stack([_bucket_counts(seconds[kind]) for kind in _KINDS])
        number = _slice_number(visible_at)
        with self._lock:
            held = self._slices.setdefault(number, np.zeros((len(_KINDS), _BUCKETS), np.int64))
            held += counts
            self._forget(number)

    def snapshot(self, as_of: datetime) -> Latency | None:
        """Of the five minutes before as_of; None when no row came in them.

        Hops add up in each row, so in these percentiles not exactly.
        """
        with self._lock:
            self._forget(_slice_number(as_of))
            counts = sum(self._slices.values(), np.zeros((len(_KINDS), _BUCKETS), np.int64))
        if not counts[0].any():
            return None
        total, *hops = (_percentiles(kind) for kind in counts)
        by_hop = dict(zip(HOPS, hops, strict=True))
        return Latency(total.p50, total.p95, total.p99, by_hop)

    def _forget(self, newest: int) -> None:
        oldest = newest - WINDOW_SECONDS // SLICE_SECONDS
        for number in [number for number in self._slices if number < oldest]:
            del self._slices[number]


def _microseconds(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """Since the epoch; a change log has no null among its times once commit_lsn is above 0."""
    return column.to_numpy().astype("datetime64[us]").astype(np.int64)


def _visible_microseconds(
    visible_at: datetime | NDArray[np.datetime64], live: NDArray[np.bool_]
) -> NDArray[np.int64]:
    if isinstance(visible_at, datetime):
        return np.full(int(live.sum()), round(visible_at.timestamp() * 1e6), np.int64)
    return visible_at.astype("datetime64[us]").astype(np.int64)[live]


def _bucket_counts(seconds: NDArray[np.float64]) -> NDArray[np.int64]:
    """How many lie in each bucket. Clocks of two machines may differ: below zero counts as zero."""
    clipped = np.clip(seconds, _SECONDS_MIN, _SECONDS_MAX)
    buckets = (np.log(clipped / _SECONDS_MIN) / np.log(_GROWTH)).astype(np.int64)
    return np.bincount(buckets, minlength=_BUCKETS)


def _percentiles(counts: NDArray[np.int64]) -> Percentiles:
    ranks = np.ceil(np.array(QUANTILES) * counts.sum())
    buckets = np.searchsorted(np.cumsum(counts), ranks)
    middles = _SECONDS_MIN * _GROWTH ** (buckets + 0.5)
    return Percentiles(*map(float, middles))


def _slice_number(instant: datetime) -> int:
    return int(instant.timestamp()) // SLICE_SECONDS
