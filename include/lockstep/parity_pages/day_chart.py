"""A picture of how long rows waited through a day, a line for each mode, as SVG. Pure."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from itertools import pairwise

from markupsafe import Markup, escape

from lockstep.observe.day_delays import DAY, EVERY, Points
from lockstep.parity_pages.axes import HEIGHT, WIDTH, across, axes, height


def day_chart(delays: Mapping[str, Points], until: datetime) -> Markup | str:
    """Lines by time and waiting time, a log scale; broken where a mode wrote nothing; "" without
    any. delays: by mode; the n-th has the class line-n."""
    if not delays:
        return ""
    first = until - DAY
    lines = "".join(
        f'<path class="line-{number}" d="{_path(points, first, until)}"/>'
        for number, points in enumerate(delays.values(), 1)
    )
    return Markup(  # noqa: S704 - numbers, times and escaped names only
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" role="img" '
        f'aria-label="{escape(_summary(delays))}">{axes(first, until, "%H:%M")}{lines}</svg>'
    )


def _path(points: Points, first: datetime, until: datetime) -> str:
    steps = []
    for stretch in _stretches(points):
        places = [
            f"{across(max(at + EVERY / 2, first), first, until):.1f} {height(seconds):.1f}"
            for at, seconds in stretch
        ]
        # A stretch of one point is drawn as a dot: a line to itself, with round ends.
        steps.append(f"M{places[0]}L{'L'.join(places[1:] or places)}")
    return "".join(steps)


def _stretches(points: Points) -> Iterator[Points]:
    begin = 0
    for place, ((one, _), (other, _)) in enumerate(pairwise(points), 1):
        if other - one > EVERY + timedelta(seconds=1):
            yield points[begin:place]
            begin = place
    yield points[begin:]


def _summary(delays: Mapping[str, Points]) -> str:
    middles = {
        mode: sorted(seconds for _, seconds in points)[len(points) // 2]
        for mode, points in delays.items()
    }
    return ", ".join(f"{mode}: median {middle:.1f} s" for mode, middle in middles.items())
