"""What the charts of waiting times have in common: a log scale of seconds, and a clock below."""

import math
from datetime import datetime

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 900, 300, 64, 28, 8
TICKS = {0.1: "0.1 s", 1: "1 s", 10: "10 s", 60: "1 min", 600: "10 min", 3600: "1 h"}
LOWEST, HIGHEST = 0.05, 7200.0
TIMES = 6


def across(at: datetime, first: datetime, last: datetime) -> float:
    """Where a moment is, from left to right."""
    return LEFT + (WIDTH - LEFT - 8) * ((at - first) / (last - first))


def height(seconds: float) -> float:
    """Where a waiting time is, from the top; one beyond the scale is at its end."""
    bounded = min(max(seconds, LOWEST), HIGHEST)
    share = math.log(bounded / LOWEST) / math.log(HIGHEST / LOWEST)
    return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * share


def axes(first: datetime, last: datetime, clock: str) -> str:
    """The lines of the scale with their seconds, and times as `clock` formats them."""
    lines = "".join(
        f'<path class="grid" d="M{LEFT} {height(at):.1f}H{WIDTH}"/>'
        f'<text x="{LEFT - 8}" y="{height(at) + 4:.1f}" text-anchor="end">{text}</text>'
        for at, text in TICKS.items()
    )
    moments = [first + (last - first) * n / TIMES for n in range(1, TIMES)]
    times = "".join(
        f'<text x="{across(at, first, last):.1f}" y="{HEIGHT - 8}" text-anchor="middle">'
        f"{at:{clock}}</text>"
        for at in moments
    )
    return lines + times
