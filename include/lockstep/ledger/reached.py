"""How far each mode has come, out of a ledger's lines: a year of hours and modes has 44,000."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lockstep.ledger.entries import Judged, Reached, Verified
from lockstep.model.modes import StreamMode
from lockstep.model.verdict import Verdict

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIMES = ("window_start", "window_end", "checked_at")
_NAMES = ("mode", "window_start", "window_end", "verdict", "checked_at", "version")
_LINES = pa.schema(
    [(name, pa.timestamp("us", "UTC") if name in _TIMES else pa.string()) for name in _NAMES]
)


def reached_of(lines: pa.Table, version: str) -> dict[StreamMode, Reached]:
    """Of each mode in `lines`: mode, window_start, window_end, verdict, checked_at, version.

    version: as in `verified`.
    """
    lines = lines.cast(_LINES)  # the engine gives views of texts
    return {
        StreamMode(mode): _of_mode(lines.filter(pc.equal(lines["mode"], mode)), version)
        for mode in lines["mode"].unique().to_pylist()
    }


def verified(lines: Iterable[Judged], version: str) -> Verified | None:
    """How far a mode is verified now, given all of its lines; None when no window passed.

    The most recent stretch of time that windows which passed cover without a gap, and that no
    other window touches. A window counts as it came out last: compared again, it can close a gap
    or open one. version: of the pipeline now; that another version agreed proves nothing.
    """
    columns = list(zip(*lines, strict=True))
    if not columns:
        return None
    (found,) = reached_of(pa.table(columns, schema=_LINES), version).values()
    return found.verified


def _of_mode(lines: pa.Table, version: str) -> Reached:
    starts, ends, checked = (lines[name].cast(pa.int64()).to_numpy() for name in _TIMES)
    is_current = pc.equal(lines["version"], version)
    passed = pc.and_(pc.equal(lines["verdict"], str(Verdict.PASS)), is_current).to_numpy()
    newest = lines.slice(int(np.lexsort((checked, ends))[-1]), 1).to_pylist()[0]
    return Reached(_judged(newest), _verified(starts, ends, checked, passed))


def _verified(
    starts: np.ndarray, ends: np.ndarray, checked: np.ndarray, passed: np.ndarray
) -> Verified | None:
    # A window counts as it came out last.
    order = np.lexsort((checked, ends, starts))
    starts, ends, passed = starts[order], ends[order], passed[order].astype(np.int64)
    is_last = np.append((starts[1:] != starts[:-1]) | (ends[1:] != ends[:-1]), True)
    starts, ends, passed = starts[is_last], ends[is_last], passed[is_last]
    # How many windows that passed, and others, cover the time from each bound on.
    bounds, places = np.unique(np.concatenate([starts, ends]), return_inverse=True)
    by_passed, by_others = (
        np.cumsum(np.bincount(places, np.concatenate([steps, -steps])))
        for steps in (passed, 1 - passed)
    )
    is_verified = (by_passed > 0) & (by_others == 0)
    if not is_verified.any():
        return None
    last = int(np.flatnonzero(is_verified)[-1])
    gaps = np.flatnonzero(~is_verified[:last])
    first = int(gaps[-1]) + 1 if len(gaps) else 0
    return Verified(_time(bounds[first]), _time(bounds[last + 1]))


def _judged(row: dict) -> Judged:
    mode, start, end, verdict, *others = row.values()
    return Judged(StreamMode(mode), start, end, Verdict(verdict), *others)


def _time(microseconds: np.int64) -> datetime:
    return _EPOCH + timedelta(microseconds=int(microseconds))
