"""What the pages of parity show, out of the ledger, the streams' files and their tables."""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from lockstep.errors import LakehouseError, LockstepError
from lockstep.ledger import book
from lockstep.ledger.delays import delays_of
from lockstep.ledger.entries import Comparison, Judged, Verified, verified
from lockstep.ledger.formatting import SIGNS, both_sides, explanation
from lockstep.model.modes import StreamMode
from lockstep.model.verdict import DifferenceClass, Verdict
from lockstep.model.window import Window
from lockstep.parity_pages.delay_chart import delay_chart
from lockstep.pipeline.names import differences_path, sql_name
from lockstep.pipeline.plan import Plan
from lockstep.settings import Settings
from lockstep.supervise.health import Health
from lockstep.supervise.observation import Observation, observe

HOURS = 48
SHOWN = 200
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
HourUrl = Callable[[Window, StreamMode], str]
_WORDS = {
    Verdict.PASS: "agrees",
    Verdict.FAIL: "differs",
    Verdict.WAITING: "stream behind",
    Verdict.NOT_COVERED: "not covered",
}
HEALTH_CLASSES = {
    Health.OK: "pass",
    Health.STARTING: "waiting",
    Health.STOPPED: "not_covered",
}
_BY_DESIGN = {
    DifferenceClass.LOOKUP_RACE: "by design",
    DifferenceClass.DIMENSION_DRIFT: "by design",
    DifferenceClass.CHANGED_AFTER_CUT: "no part of the verdict",
}


def overview(
    settings: Settings, plan: Plan, hour_url: HourUrl, window: Window | None = None
) -> dict:
    """Values for parity.html: each mode that was ever compared or started, and its hours.

    window: these hours; None: the last HOURS.
    """
    now = datetime.now(UTC)
    of_mode: dict[StreamMode, list[Judged]] = defaultdict(list)
    for judged in book.judged(settings):
        of_mode[judged.mode].append(judged)
    newest = max((one.end for every in of_mode.values() for one in every), default=now)
    starts = _starts(window, newest)
    shown = {
        (line.mode, line.window.start, line.window.end): line  # the last of a window stays
        for line in book.lines(settings, since=starts[0])
        if line.window.start <= starts[-1]
    }
    modes = []
    for mode in StreamMode:
        seen = observe(settings, mode)
        if of_mode[mode] or seen.desired is not None:
            lines = [line for (of, *_), line in shown.items() if of is mode]
            modes.append(
                _mode(seen, verified(of_mode[mode], plan.version))
                | {"name": mode, **_hours(mode, lines, starts, hour_url)}
            )
    ticks = [f"{s:%H:%M}" if s.hour % 6 == 0 else "" for s in starts]
    return {
        "now": f"{now:%Y-%m-%d %H:%M:%S} UTC",
        "modes": modes,
        "hours": f"The last {HOURS} hours" if window is None else _window(window),
        "ticks": ticks,
    }


def hour(
    settings: Settings, plan: Plan, window: Window, mode: StreamMode, hour_url: HourUrl
) -> dict:
    """Values for hour.html: the window's newest comparison. Raises LakehouseError for none."""
    lines = [line for line in book.lines(settings, mode) if line.window == window]
    if not lines:
        raise LakehouseError(f"the window {window} was never compared with {mode}")
    *earlier, line = lines
    found = book.differences(settings, line.check_id)
    ranks = {kind: rank for rank, kind in enumerate(DifferenceClass)}
    found.sort(key=lambda one: (one.kind in _BY_DESIGN, ranks[one.kind], one.key_values))
    total = sum(line.counts.values())
    return {
        "line": line,
        "window": _window(window),
        "words": _WORDS[line.verdict],
        "tolerated": _BY_DESIGN,
        "checked_at": f"{line.checked_at:%Y-%m-%d %H:%M:%S} UTC",
        "earlier": [
            {
                "verdict": one.verdict,
                "words": f"{_WORDS[one.verdict]} ({one.checked_at:%d %b %H:%M})",
                "href": hour_url(one.window, mode),
            }
            for one in earlier
        ],
        "repairable": line.counts.get(DifferenceClass.CHANGED_AFTER_CUT, 0),
        "bounds": (window.start.isoformat(), window.end.isoformat()),
        "chart": _chart(settings, plan, window, mode),
        "key_columns": ", ".join(plan.result.key),
        "differences": [
            {
                "key": plan.row_keys.shown(one.key),
                "kind": one.kind,
                "severity": "waiting" if one.kind in _BY_DESIGN else "fail",
                "sides": both_sides(one),
                "because": explanation(one),
            }
            for one in found[:SHOWN]
        ],
        "more": max(0, total - SHOWN) if found else 0,
        "differences_table": sql_name(differences_path(plan.name)),
    }


def _starts(window: Window | None, newest: datetime) -> list[datetime]:
    """The beginning of each hour to show: the window's, or the last HOURS up to the newest."""
    if window is None:
        last = newest.replace(minute=0, second=0, microsecond=0)
        return [last - HOUR * back for back in range(HOURS, 0, -1)]
    first = window.start.replace(minute=0, second=0, microsecond=0)
    return [first + HOUR * place for place in range(math.ceil((window.end - first) / HOUR))]


def _mode(seen: Observation, reach: Verified | None) -> dict:
    beat = seen.heartbeat
    latency = beat.latency if beat is not None else None
    return {
        "health": seen.finding.health,
        "health_class": HEALTH_CLASSES.get(seen.finding.health, "fail"),
        "why": seen.finding.why,
        "lag": seconds_text(beat and beat.lag_seconds),
        "p50": seconds_text(latency and latency.p50),
        "p99": seconds_text(latency and latency.p99),
        "since": time_text(reach and reach.since),
        "through": time_text(reach and reach.through),
    }


def _hours(
    mode: StreamMode, lines: Sequence[Comparison], starts: Sequence[datetime], hour_url: HourUrl
) -> dict:
    newest = max(lines, key=lambda line: line.window.end, default=None)
    return {
        "newest": newest
        and {
            "verdict": newest.verdict,
            "words": verdict_words(newest.verdict),
            "href": hour_url(newest.window, mode),
        },
        "cells": _cells(mode, lines, starts, hour_url),
    }


def _cells(
    mode: StreamMode,
    windows: Sequence[Comparison],
    starts: Sequence[datetime],
    hour_url: HourUrl,
) -> list[dict]:
    """A cell for each hour; one that a longer window covers shows that window."""
    by_start: Mapping[datetime, Comparison] = {
        line.window.start + HOUR * place: line
        for line in windows
        for place in range(max(1, round(line.window.duration / HOUR)))
    }
    cells = []
    for start in starts:
        line = by_start.get(start)
        when = _window(Window(start, start + HOUR))
        if line is None:
            cells.append({"href": "", "title": f"{when}: not compared"})
            continue
        counts = ", ".join(f"{count:,} {kind}" for kind, count in line.counts.items())
        title = f"{when}: {_WORDS[line.verdict]}, {line.orders_compared:,} rows"
        cells.append(
            {
                "href": hour_url(line.window, mode),
                "verdict": line.verdict,
                "sign": SIGNS[line.verdict],
                "title": f"{title}; {counts}" if counts else title,
            }
        )
    return cells


def _chart(settings: Settings, plan: Plan, window: Window, mode: StreamMode) -> str:
    try:
        return delay_chart(delays_of(settings, plan, window, mode), window)
    except LockstepError:
        return ""  # a table that cannot be read now costs the picture, not the page


def verdict_words(verdict: Verdict) -> str:
    """`✓ agrees`."""
    return f"{SIGNS[verdict]} {_WORDS[verdict]}"


def _window(window: Window) -> str:
    end = f"{window.end:%H:%M}" if window.duration <= DAY else f"{window.end:%Y-%m-%d %H:%M}"
    return f"{window.start:%Y-%m-%d %H:%M} to {end} UTC"


def time_text(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment:%Y-%m-%d %H:%M}"


def seconds_text(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
