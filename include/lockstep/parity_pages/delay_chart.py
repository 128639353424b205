"""A picture of how long rows waited, as SVG that follows the page's colours. Pure."""

from collections.abc import Sequence
from datetime import timedelta

from markupsafe import Markup

from lockstep.ledger.delays import Delay, Delays
from lockstep.model.window import Window
from lockstep.parity_pages.axes import HEIGHT, TIMES, WIDTH, across, axes, height

SHORTEST = timedelta(minutes=1)
"""The axis covers so much at least."""


def delay_chart(delays: Delays, window: Window) -> Markup | str:
    """Dots by commit time and waiting time, a log scale; "" when there is nothing to show.

    The batch's have the class batch, those of the n-th stream the class line-n.

    The axis is the window if all was committed in it, otherwise the time of the commits: a row
    may be written down long after it was taken.
    """
    series = {"batch": delays.batch} | {
        f"line-{number}": rows for number, rows in enumerate(delays.streams.values(), 1)
    }
    commits = [delay.committed_at for rows in series.values() for delay in rows]
    if not commits:
        return ""
    first, last = min(commits), max(commits)
    if window.start <= first and last < window.end:
        first, last = window.start, window.end
    last = max(last, first + SHORTEST)
    clock = "%H:%M" if last - first >= TIMES * SHORTEST else "%H:%M:%S"

    def dots(kind: str, rows: Sequence[Delay]) -> str:
        return "".join(
            f'<circle class="{kind}" r="2.2" cx="{across(one.committed_at, first, last):.1f}" '
            f'cy="{height(one.seconds):.1f}"/>'
            for one in rows
        )

    drawn = "".join(dots(kind, rows) for kind, rows in series.items())
    return Markup(  # noqa: S704 - numbers and times only
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" role="img" '
        f'aria-label="{_summary(delays)}">{axes(first, last, clock)}{drawn}</svg>'
    )


def _summary(delays: Delays) -> str:
    medians = []
    for name, rows in {"hourly run": delays.batch, **delays.streams}.items():
        if rows:
            middle = sorted(delay.seconds for delay in rows)[len(rows) // 2]
            medians.append(f"{name}: median {middle:.1f} s")
    return ", ".join(medians)
