"""Draws how long each order waited, under the hourly runs and under the streams, as a picture."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

WIDTH, HEIGHT, SCALE = 820, 400, 2
INK = "#334155"
COLOURS = ("#c2410c", "#0b6fb8", "#6d28d9", "#15803d", "#a16207", "#be185d")
TICKS = {0.1: "0.1 s", 1: "1 s", 10: "10 s", 60: "1 min", 600: "10 min", 3600: "1 h"}
LOWEST, HIGHEST = 0.05, 7200.0
HOURLY_RUN = "hourly run"
"""The name of the hourly runs' delays in the picture."""


def save_delay_chart(delays: "pd.DataFrame", path: Path) -> None:
    """Write a PNG of the delays (columns by, order_time, seconds; one row an order and deliverer).

    by is HOURLY_RUN or a stream's mode; the axis of seconds is logarithmic.
    """
    import altair as alt

    names = list(dict.fromkeys(delays.by))
    labels = " : ".join(f"datum.value == {at} ? '{text}'" for at, text in TICKS.items())
    chart = (
        alt.Chart(delays.assign(seconds=delays.seconds.clip(LOWEST, HIGHEST)))
        .mark_circle(size=14, opacity=0.55)
        .encode(
            x=alt.X("order_time:T", title="order taken at (UTC)", axis=alt.Axis(format="%H:%M")),
            y=alt.Y(
                "seconds:Q",
                title="from taken to readable (log scale)",
                scale=alt.Scale(type="log", domain=[LOWEST, HIGHEST]),
                axis=alt.Axis(values=list(TICKS), labelExpr=f"{labels} : ''"),
            ),
            color=alt.Color(
                "by:N",
                title=None,
                scale=alt.Scale(domain=names, range=list(COLOURS[: len(names)])),
                legend=alt.Legend(orient="top", symbolOpacity=1, symbolSize=90, labelFontSize=13),
            ),
        )
        .properties(
            width=WIDTH,
            height=HEIGHT,
            title=alt.Title(
                headline(delays),
                subtitle="hourly run: end of the hour + 5 minutes + the run's measured time; "
                "streams: measured from the database's commit",
                anchor="start",
            ),
        )
        .configure_axis(labelColor=INK, titleColor=INK, gridColor="#e2e8f0", labelFontSize=12)
        .configure_title(color=INK, fontSize=17, subtitleColor=INK, subtitleFontSize=12)
        .configure_view(stroke=None)
    )
    # Rows beyond altair's default limit for web pages are fine in a picture.
    with alt.data_transformers.enable(max_rows=None):
        path.parent.mkdir(parents=True, exist_ok=True)
        chart.save(path, format="png", scale_factor=SCALE)


def headline(delays: "pd.DataFrame") -> str:
    """The delays in a sentence: the hourly runs' range, and the slowest stream's median."""
    hourly = delays[delays.by == HOURLY_RUN].seconds / 60
    text = f"An order waits {hourly.min():.1f} to {hourly.max():.1f} minutes for its hourly run"
    streams = delays[delays.by != HOURLY_RUN].groupby("by").seconds.median()
    return f"{text}, and {streams.max():.1f} s for a stream" if len(streams) else text
