"""A picture of how long rows waited, as SVG that follows the page's colours. Pure."""

import math
from collections.abc import Sequence
from datetime import timedelta

from markupsafe import Markup

from lockstep.ledger.delays import Delay, Delays
from lockstep.model.window import Window

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 900, 300, 64, 28, 8
TICKS = {0.1: "0.1 s", 1: "1 s", 10: "10 s", 60: "1 min", 600: "10 min", 3600: "1 h"}
LOWEST, HIGHEST = 0.05, 7200.0
TIMES = 6
SHORTEST = timedelta(minutes=1)
"""The axis covers so much at least."""


def delay_chart(delays: Delays, window: Window) -> Markup | str:
    """Dots by commit time and waiting time, a log scale; "" when there is nothing to show.

    The axis is the window if all was committed in it, otherwise the time of the commits: a row
    may be written down long after it was taken.
    """
    commits = [delay.committed_at for delay in (*delays.batch, *delays.stream)]
    if not commits:
        return ""
    first, last = min(commits), max(commits)
    if window.start <= first and last < window.end:
        first, last = window.start, window.end
    last = max(last, first + SHORTEST)
    span = (last - first) / timedelta(seconds=1)

    clock = "%H:%M" if last - first >= TIMES * SHORTEST else "%H:%M:%S"

    def across(seconds: float) -> float:
        return LEFT + (WIDTH - LEFT - 8) * seconds / span

    def dots(series: Sequence[Delay], kind: str) -> str:
        return "".join(
            f'<circle class="{kind}" r="2.2" '
            f'cx="{across((one.committed_at - first).total_seconds()):.1f}" '
            f'cy="{_height(one.seconds):.1f}"/>'
            for one in series
        )

    lines = "".join(
        f'<path class="grid" d="M{LEFT} {_height(at):.1f}H{WIDTH}"/>'
        f'<text x="{LEFT - 8}" y="{_height(at) + 4:.1f}" text-anchor="end">{text}</text>'
        for at, text in TICKS.items()
    )
    times = "".join(
        f'<text x="{across(span * n / TIMES):.1f}" y="{HEIGHT - 8}" text-anchor="middle">'
        f"{first + (last - first) * n / TIMES:{clock}}</text>"
        for n in range(1, TIMES)
    )
    return Markup(  # noqa: S704 - numbers and times only
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" role="img" '
        f'aria-label="{_summary(delays)}">{lines}{times}'
        f"{dots(delays.batch, 'batch')}{dots(delays.stream, 'stream')}</svg>"
    )


def _height(seconds: float) -> float:
    bounded = min(max(seconds, LOWEST), HIGHEST)
    share = math.log(bounded / LOWEST) / math.log(HIGHEST / LOWEST)
    return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * share


def _summary(delays: Delays) -> str:
    medians = []
    for name, series in (("hourly run", delays.batch), ("stream", delays.stream)):
        if series:
            middle = sorted(delay.seconds for delay in series)[len(series) // 2]
            medians.append(f"{name}: median {middle:.1f} s")
    return ", ".join(medians)
