"""`lockstep bench latency`: from the database's commit to readable in Delta, hop by hop.

Orders come at a fixed rate whatever the stream does (open loop). The stream's driver is started as
in production. A process that knows nothing of it watches the tables' logs and stamps when each
version could be read. The first seconds are discarded: a JVM that just started is slow.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lockstep.model.modes import StreamMode
from lockstep.observe.latency import latency_seconds
from lockstep.settings import Settings
from lockstep.supervise import launcher
from numpy.typing import NDArray

from lockstep_tools.bench.change_rows import VISIBLE_AT, rows_seen
from lockstep_tools.bench.paced_orders import Placed, place_paced
from lockstep_tools.bench.stream_stack import REASON
from lockstep_tools.bench.version_watch import VersionWatch
from lockstep_tools.errors import MeasurementError
from lockstep_tools.soak.catching_up import wait_until_caught_up
from lockstep_tools.soak.change_logs import folder_of

WARM_UP_SECONDS = 45.0
CATCH_UP_SECONDS_MAX = 300.0
UNACCOUNTED_SHARE_MAX = 0.05
"""How far the hops together may be off the total that the shop saw: two clocks' reading, and the
answer's way to the shop. More means that a hop is missing, or counted twice."""


@dataclass(frozen=True)
class Distribution:
    """Seconds."""

    p50: float
    p95: float
    p99: float
    mean: float


@dataclass(frozen=True)
class ModeLatency:
    """Of one mode: the total and its hops, and `seen`, the total as the shop itself saw it.

    hops_of_seen: the hops' means together, as a share of the mean that was seen; about 1.
    """

    mode: StreamMode
    rows: int
    parts: dict[str, Distribution]
    seen: Distribution
    hops_of_seen: float


@dataclass(frozen=True)
class Measured:
    """One run. late_seconds_max: how late the latest order was placed, for want of a database."""

    rate: float
    seconds: float
    late_seconds_max: float
    modes: list[ModeLatency]


def measure(
    settings: Settings,
    modes: Sequence[StreamMode],
    rate: float,
    seconds: float,
    on_progress: Callable[[str], None],
) -> Measured:
    """Run these modes in one driver while orders come at `rate` a second for `seconds`.

    settings: a stack without streams (stream_stack). Raises LockstepError when a stream fails or
    does not catch up with the last order.
    """
    on_progress(f"starting one driver with {', '.join(modes)}")
    launcher.start(settings, [str(mode) for mode in modes], REASON)
    folders = {str(mode): folder_of(settings, mode) for mode in modes}
    with VersionWatch(folders) as watch:
        on_progress(f"{rate:g} orders a second for {WARM_UP_SECONDS + seconds:.0f} s")
        counted_from = datetime.now(UTC) + timedelta(seconds=WARM_UP_SECONDS)
        placed = place_paced(settings, rate, WARM_UP_SECONDS + seconds)
        wait_until_caught_up(settings, modes, CATCH_UP_SECONDS_MAX)
        seen = watch.seen()
    launcher.stop_all(settings, REASON)
    found = [
        latency_of(mode, rows_seen(folders[mode], seen[mode]), placed, counted_from)
        for mode in modes
    ]
    return Measured(rate, seconds, placed.late_seconds_max, found)


def require_accounted(modes: Sequence[ModeLatency]) -> None:
    """Raise MeasurementError when the hops of a mode do not add up to the total."""
    off = [one for one in modes if not abs(one.hops_of_seen - 1) <= UNACCOUNTED_SHARE_MAX]
    if off:
        shares = ", ".join(f"of {one.mode} {one.hops_of_seen:.1%}" for one in off)
        raise MeasurementError(
            f"the hops together are {shares} of the total that the shop saw, more than "
            f"{UNACCOUNTED_SHARE_MAX:.0%} off: a hop is missing or counted twice, so the figures "
            "cannot be trusted; run it again on a quiet machine, then look at the stamps of "
            "observe/latency.py"
        )


def latency_of(
    mode: StreamMode, rows: pa.Table, placed: Placed, counted_from: datetime
) -> ModeLatency:
    """Of the rows committed from `counted_from` on. rows: change_rows.COLUMNS and visible_at.

    Raises MeasurementError when there are none.
    """
    rows = rows.filter(pc.greater_equal(rows["committed_at"], pa.scalar(counted_from)))
    if not rows.num_rows:
        raise MeasurementError(f"{mode} wrote no row of an order placed after the warm-up")
    visible = rows[VISIBLE_AT].to_numpy()
    parts = latency_seconds(rows, visible)
    heard = np.array([placed.acknowledged_ns[order] for order in rows["order_id"].to_pylist()])
    seen = (visible.astype("datetime64[ns]").astype(np.int64) - heard) / 1e9
    total, *hops = (distribution(values) for values in parts.values())
    return ModeLatency(
        mode,
        rows.num_rows,
        dict(zip(parts, (total, *hops), strict=True)),
        distribution(seen),
        sum(hop.mean for hop in hops) / float(np.mean(seen)),
    )


def distribution(values: NDArray[np.float64]) -> Distribution:
    """Of seconds, at least one."""
    p50, p95, p99 = np.quantile(values, [0.5, 0.95, 0.99])
    return Distribution(float(p50), float(p95), float(p99), float(np.mean(values)))
