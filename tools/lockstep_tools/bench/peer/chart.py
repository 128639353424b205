"""Draws the latencies of all rounds as a picture: each round a point, medians as bars."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from lockstep_tools.bench.peer.compare import Latency

WIDTH, HEIGHT, SCALE = 560, 130, 2
INK = "#334155"
COLOURS = ("#0b6fb8", "#c2410c", "#a16207")
PERCENTILES = ("p50", "p95", "p99")


def points(latencies: Mapping[str, Sequence[Latency]]) -> Iterable[dict[str, object]]:
    """A row for each side, percentile and round: side, percentile, milliseconds."""
    return (
        {"side": side, "percentile": name, "milliseconds": 1000 * getattr(one.seconds, name)}
        for side, rounds in latencies.items()
        for name in PERCENTILES
        for one in rounds
    )


def save_chart(latencies: Mapping[str, Sequence[Latency]], title: str, path: Path) -> None:
    """Write a PNG with a row for each percentile; the axis begins at zero."""
    import altair as alt
    import pandas as pd

    sides = list(latencies)
    base = alt.Chart(pd.DataFrame(points(latencies))).encode(
        y=alt.Y("side:N", title=None, sort=sides),
        color=alt.Color("side:N", scale=alt.Scale(domain=sides, range=list(COLOURS)), legend=None),
    )
    title_x = "milliseconds from commit to readable"
    bars = base.mark_bar(opacity=0.45).encode(x=alt.X("median(milliseconds):Q", title=title_x))
    dots = base.mark_circle(size=50, opacity=0.9).encode(x=alt.X("milliseconds:Q", title=title_x))
    chart = (
        alt.layer(bars, dots)
        .properties(width=WIDTH, height=HEIGHT)
        .facet(row=alt.Row("percentile:N", title=None, sort=list(PERCENTILES)))
        .properties(title=alt.Title(title, anchor="start"))
        .configure_axis(labelColor=INK, titleColor=INK, gridColor="#e2e8f0", labelFontSize=12)
        .configure_title(color=INK, fontSize=15)
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    chart.save(path, format="png", scale_factor=SCALE)
