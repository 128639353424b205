"""What the pages of parity show, out of the ledger, the streams' files and their tables."""

from collections.abc import Sequence
from datetime import UTC, datetime

from lockstep.errors import LakehouseError, LockstepError
from lockstep.ledger import book
from lockstep.ledger.delays import delays_of
from lockstep.ledger.entries import Comparison, Verified
from lockstep.ledger.formatting import both_sides, explanation
from lockstep.model.modes import StreamMode
from lockstep.model.verdict import DifferenceClass
from lockstep.model.window import Window
from lockstep.observe.day_delays import delays_of_day
from lockstep.parity_pages.day_chart import day_chart
from lockstep.parity_pages.delay_chart import delay_chart
from lockstep.parity_pages.grid import Grid, WindowUrl
from lockstep.parity_pages.words import (
    WORDS,
    seconds_text,
    time_text,
    verdict_words,
    window_text,
)
from lockstep.pipeline.names import differences_path, sql_name
from lockstep.pipeline.plan import Plan
from lockstep.settings import Settings
from lockstep.supervise.health import Health
from lockstep.supervise.observation import Observation, observe

SHOWN = 200
"""Differing rows of a window."""
HEALTH_CLASSES = {
    Health.OK: "pass",
    Health.STARTING: "waiting",
    Health.STOPPED: "not_covered",
}
_BY_DESIGN = {
    DifferenceClass.LOOKUP_RACE: "by design, up to a share of the rows",
    DifferenceClass.DIMENSION_DRIFT: "by design",
    DifferenceClass.CHANGED_AFTER_CUT: "no part of the verdict",
}


def overview(
    settings: Settings, plan: Plan, window_url: WindowUrl, window: Window | None = None
) -> dict:
    """Values for parity.html: each mode that was ever compared or started, and its windows.

    window: the windows of this stretch of time; None: the last ones.
    """
    now = datetime.now(UTC)
    reached = book.reached(settings, plan.version)
    newest = max((one.newest.end for one in reached.values()), default=now)
    windows = plan.manifest.windows
    grid = Grid.up_to(windows, newest) if window is None else Grid.inside(windows, window)
    shown = {
        (line.mode, line.window.start, line.window.end): line  # the last of a window stays
        for line in book.lines(settings, since=grid.windows[0].start)
        if line.window.start <= grid.windows[-1].start
    }
    modes = []
    for mode in StreamMode:
        seen = observe(settings, mode)
        if mode in reached or seen.desired is not None:
            lines = [line for (of, *_), line in shown.items() if of is mode]
            modes.append(
                _mode(seen, reached[mode].verified if mode in reached else None)
                | {
                    "name": mode,
                    "newest": _newest(mode, lines, window_url),
                    "cells": grid.cells(mode, lines, window_url),
                }
            )
    return {
        "now": f"{now:%Y-%m-%d %H:%M:%S} UTC",
        "modes": modes,
        "hours": window_text(window) if window else f"The last {len(grid.windows)} {grid.unit}s",
        "unit": grid.unit,
        "ticks": grid.ticks,
        **_day(settings, [mode["name"] for mode in modes] if window is None else [], now),
    }


def hour(
    settings: Settings, plan: Plan, window: Window, mode: StreamMode, window_url: WindowUrl
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
        "window": window_text(window),
        "words": WORDS[line.verdict],
        "tolerated": _BY_DESIGN,
        "checked_at": f"{line.checked_at:%Y-%m-%d %H:%M:%S} UTC",
        "earlier": [
            {
                "verdict": one.verdict,
                "words": f"{WORDS[one.verdict]} ({one.checked_at:%d %b %H:%M})",
                "href": window_url(one.window, mode),
            }
            for one in earlier
        ],
        "repairable": line.counts.get(DifferenceClass.CHANGED_AFTER_CUT, 0),
        "bounds": (window.start.isoformat(), window.end.isoformat()),
        **_chart(settings, plan, window),
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


def _day(settings: Settings, modes: Sequence[StreamMode], now: datetime) -> dict:
    """The chart of the last day, and the names of its lines in their order."""
    try:
        delays = delays_of_day(settings, modes, now)
    except LockstepError:
        delays = {}  # figures that cannot be read now cost the picture, not the page
    return {"day": day_chart(delays, now), "day_modes": list(delays)}


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


def _newest(mode: StreamMode, lines: Sequence[Comparison], window_url: WindowUrl) -> dict | None:
    line = max(lines, key=lambda line: line.window.end, default=None)
    return line and {
        "verdict": line.verdict,
        "words": verdict_words(line.verdict),
        "href": window_url(line.window, mode),
    }


def _chart(settings: Settings, plan: Plan, window: Window) -> dict:
    """The window's chart, and the names of its streams in their order."""
    try:
        delays = delays_of(settings, plan, window)
    except LockstepError:  # a table that cannot be read now costs the picture, not the page
        return {"chart": "", "chart_modes": []}
    return {"chart": delay_chart(delays, window), "chart_modes": list(delays.streams)}
