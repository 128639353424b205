"""Draws each order's delay under the hourly runs, as a picture."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

WIDTH, HEIGHT, SCALE = 820, 380, 2
INK, WAITING = "#334155", "#c2410c"


def save_delay_chart(delays: "pd.DataFrame", path: Path) -> None:
    """Write a PNG of the delays (columns order_time, delay_minutes; one row an order)."""
    import altair as alt

    low, high = delays.delay_minutes.min(), delays.delay_minutes.max()
    chart = (
        alt.Chart(delays)
        .mark_circle(size=14, opacity=0.55, color=WAITING)
        .encode(
            x=alt.X("order_time:T", title="order taken at (UTC)", axis=alt.Axis(format="%H:%M")),
            y=alt.Y(
                "delay_minutes:Q",
                title="minutes until delivered",
                scale=alt.Scale(domain=[0, 70]),
                axis=alt.Axis(values=list(range(0, 71, 10))),
            ),
        )
        .properties(
            width=WIDTH,
            height=HEIGHT,
            title=alt.Title(
                f"An order waits {low:.1f} to {high:.1f} minutes for its hourly run",
                subtitle=f"{len(delays):,} orders; delivered = end of the hour + 5 minutes + "
                "the run's measured time",
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
