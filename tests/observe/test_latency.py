"""What the latency window reports: hops that add up, quantiles by rows, the last five minutes."""

import threading
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from lockstep.observe.latency import HOPS, TOTAL, LatencyWindow, latency_seconds

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
TIMESTAMP = pa.timestamp("us", "UTC")


def rows(*hops: tuple[float, float, float], lsn: int = 1000, nulls: int = 0) -> pa.Table:
    """Change-log rows committed at NOON: seconds of capture, transport and process of each."""
    times = [
        [NOON, *(NOON + timedelta(seconds=sum(one[:i])) for i in range(1, len(one) + 1))]
        for one in hops
    ]
    times += [[None] * 4] * nulls
    names = ("committed_at", "captured_at", "seen_at", "written_at")
    columns = {name: pa.array([t[i] for t in times], TIMESTAMP) for i, name in enumerate(names)}
    return pa.table({"commit_lsn": pa.array([lsn] * len(hops) + [0] * nulls), **columns})


def test_hops_add_up_to_the_total() -> None:
    found = latency_seconds(rows((0.01, 0.2, 0.05), (0.3, 0.0, 0.1)), NOON + timedelta(seconds=1))
    assert found[TOTAL] == pytest.approx([1.0, 1.0])
    assert sum(found[hop] for hop in HOPS) == pytest.approx(found[TOTAL])
    assert [found[hop][0] for hop in HOPS] == pytest.approx([0.01, 0.2, 0.05, 0.74])


def test_each_row_may_have_become_readable_at_a_time_of_its_own() -> None:
    visible = np.array(["2026-01-01T12:00:01", "2026-01-01T12:00:03"], "datetime64[us]")
    found = latency_seconds(rows((0, 0, 0), (0, 0, 1)), visible)
    assert found[TOTAL] == pytest.approx([1.0, 3.0])
    assert found["write"] == pytest.approx([1.0, 2.0])


def test_quantiles_weigh_every_row_of_every_commit() -> None:
    window = LatencyWindow()
    window.add(rows(*[(0.0, 0.0, 0.0)] * 94), NOON + timedelta(seconds=0.1))
    window.add(rows(*[(0.0, 0.0, 0.0)] * 4), NOON + timedelta(seconds=1))
    window.add(rows(*[(0.0, 2.0, 0.0)] * 2), NOON + timedelta(seconds=3))
    found = window.snapshot(NOON + timedelta(seconds=3))
    assert found.p50 == pytest.approx(0.1, rel=0.011)
    assert found.p95 == pytest.approx(1.0, rel=0.011)
    assert found.p99 == pytest.approx(3.0, rel=0.011)
    assert found.hops["transport"].p99 == pytest.approx(2.0, rel=0.011)
    assert found.hops["transport"].p50 < 0.001
    assert set(found.hops) == set(HOPS)


def test_quantiles_are_those_of_the_rows_themselves_within_one_percent() -> None:
    capture = np.random.default_rng(7).lognormal(-1, 1, 5000)
    window = LatencyWindow()
    window.add(rows(*((float(one), 0.0, 0.0) for one in capture)), NOON + timedelta(seconds=100))
    found = window.snapshot(NOON + timedelta(seconds=100)).hops["capture"]
    expected = np.quantile(capture, [0.5, 0.95, 0.99], method="inverted_cdf")
    assert [found.p50, found.p95, found.p99] == pytest.approx(expected, rel=0.011)


def test_rows_of_the_initial_snapshot_have_no_latency() -> None:
    window = LatencyWindow()
    window.add(rows(nulls=3), NOON)
    assert window.snapshot(NOON) is None
    window.add(rows((0.1, 0.1, 0.1), nulls=3), NOON + timedelta(seconds=0.4))
    assert window.snapshot(NOON).p99 == pytest.approx(0.4, rel=0.011)


def test_a_clock_behind_the_databases_counts_as_zero() -> None:
    window = LatencyWindow()
    window.add(rows((-0.5, 0.0, 0.0)), NOON)
    assert window.snapshot(NOON).hops["capture"].p50 < 0.001


def test_five_minutes_later_a_row_is_forgotten() -> None:
    window = LatencyWindow()
    window.add(rows((0.1, 0.1, 0.1)), NOON + timedelta(seconds=1))
    assert window.snapshot(NOON + timedelta(seconds=299)) is not None
    assert window.snapshot(NOON + timedelta(seconds=311)) is None
    for minute in range(60):
        window.add(rows((0.1, 0.1, 0.1)), NOON + timedelta(minutes=minute))
    assert len(window._slices) <= 31


def test_one_thread_may_report_while_another_adds() -> None:
    window, commits = LatencyWindow(), 300
    one_commit = rows(*[(0.1, 0.1, 0.1)] * 10)
    adding = threading.Thread(
        target=lambda: [window.add(one_commit, NOON + timedelta(seconds=i)) for i in range(commits)]
    )
    adding.start()
    while adding.is_alive():
        window.snapshot(NOON + timedelta(seconds=commits))
    adding.join()
    counts = sum(window._slices.values())
    assert counts.sum() == 5 * 10 * commits
