"""Latency of change-log rows, from the database's commit to readable in Delta, hop by hop.

The hops of one row add up to its total. Nothing here knows a clock, Spark, or where figures go.
"""

import threading
from collections import OrderedDict
from datetime import datetime
from typing import TypedDict

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

TOTAL = "total"
HOPS = ("capture", "transport", "process", "write")
"""In order: the commit until Debezium read it; Kafka, and waiting for the micro-batch; decoding and
joining; the Delta commit."""
_TIMES = ("committed_at", "captured_at", "seen_at", "written_at")
"""When each hop begins; it ends when the next begins, the last when the row can be read."""
_KINDS = (TOTAL, *HOPS)

WINDOW_SECONDS = 300
SLICE_SECONDS = 10
"""Old figures leave the window a slice at a time."""
QUANTILES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}

# Counts in buckets that grow by 2 %, so that a window takes 1 MB whatever the rate, every row
# counts as one, and a quantile is off by 1 % at the most.
_GROWTH = 1.02
_SECONDS_MIN = 1e-4
_SECONDS_MAX = 1e6
_BUCKETS = int(np.ceil(np.log(_SECONDS_MAX / _SECONDS_MIN) / np.log(_GROWTH))) + 1


class Quantiles(TypedDict):
    """Seconds that half, 95 and 99 in 100 rows did not exceed."""

    p50: float
    p95: float
    p99: float


class Latency(Quantiles):
    """Of the total, and of each of HOPS. Hops add up in each row, so not exactly in quantiles."""

    hops: dict[str, Quantiles]


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

    `add` is called by the writer after each commit (1,000 rows: under 1 ms), `snapshot` by whoever
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
        """The quantiles of the five minutes before as_of, or None when no row came in them."""
        with self._lock:
            self._forget(_slice_number(as_of))
            counts = sum(self._slices.values(), np.zeros((len(_KINDS), _BUCKETS), np.int64))
        if not counts[0].any():
            return None
        total, *hops = (_quantiles(kind) for kind in counts)
        return Latency(**total, hops=dict(zip(HOPS, hops, strict=True)))

    def _forget(self, newest: int) -> None:
        oldest = newest - WINDOW_SECONDS // SLICE_SECONDS
        for number in [number for number in self._slices if number < oldest]:
            del self._slices[number]


def _microseconds(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """Since the epoch; a change log has no null among its times once commit_lsn is above 0."""
    return column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).to_numpy()


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


def _quantiles(counts: NDArray[np.int64]) -> Quantiles:
    ranks = np.ceil(np.array(list(QUANTILES.values())) * counts.sum())
    buckets = np.searchsorted(np.cumsum(counts), ranks)
    middles = _SECONDS_MIN * _GROWTH ** (buckets + 0.5)
    return Quantiles(**dict(zip(QUANTILES, map(float, middles), strict=True)))


def _slice_number(instant: datetime) -> int:
    return int(instant.timestamp()) // SLICE_SECONDS
