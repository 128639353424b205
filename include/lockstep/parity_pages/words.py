"""What is said of windows, verdicts and times on every page."""

from datetime import datetime

from lockstep.ledger.entries import Comparison
from lockstep.ledger.formatting import SIGNS
from lockstep.model.verdict import Verdict
from lockstep.model.window import Window

WORDS = {
    Verdict.PASS: "agrees",
    Verdict.FAIL: "differs",
    Verdict.WAITING: "stream behind",
    Verdict.NOT_COVERED: "not covered",
}


def verdict_words(verdict: Verdict) -> str:
    """`✓ agrees`."""
    return f"{SIGNS[verdict]} {WORDS[verdict]}"


def window_text(window: Window) -> str:
    """`2026-03-28 10:00 to 11:00 UTC`; the day of the end, too, where it is another one."""
    is_of_day = window.end.date() == window.start.date()
    end = f"{window.end:%H:%M}" if is_of_day else f"{window.end:%Y-%m-%d %H:%M}"
    return f"{window.start:%Y-%m-%d %H:%M} to {end} UTC"


def cell_title(window: Window, line: Comparison) -> str:
    """What is found of a window."""
    counts = ", ".join(f"{count:,} {kind}" for kind, count in line.counts.items())
    title = f"{window_text(window)}: {WORDS[line.verdict]}, {line.orders_compared:,} rows"
    return f"{title}; {counts}" if counts else title


def time_text(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment:%Y-%m-%d %H:%M}"


def seconds_text(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
