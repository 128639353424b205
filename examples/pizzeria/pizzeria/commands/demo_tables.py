"""The demonstration's tables: each hour with how long its orders waited, and the verdicts."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from lockstep.ledger.entries import Comparison
from lockstep.ledger.formatting import coloured
from lockstep.parity.report import differences
from lockstep.pipeline.plan import plan_named
from lockstep.settings import Settings
from rich.console import Console
from rich.table import Table

from pizzeria.demo.comparisons import examples
from pizzeria.demo.delay_chart import HOURLY_RUN
from pizzeria.demo.hourly_runs import FinishedRun
from pizzeria.demo.hours import HourTotals
from pizzeria.names import MANIFEST

if TYPE_CHECKING:
    import pandas as pd

EXAMPLES = 2
"""Orders shown of each class."""


def hours(
    totals: Sequence[HourTotals], runs: Mapping[datetime, FinishedRun], delays: "pd.DataFrame"
) -> Table:
    """A row for each hour: what it holds, its run, and waiting times (of streams: the median)."""
    streams = [name for name in dict.fromkeys(delays.by) if name != HOURLY_RUN]
    table = Table(title=None, pad_edge=True)
    for name in (
        "hour (UTC)",
        "orders",
        "revenue",
        "hourly run",
        "waited",
        *streams,
    ):
        justify = "left" if name in ("hour (UTC)", "hourly run") else "right"
        table.add_column(name, justify=justify, no_wrap=True)
    for hour in totals:
        start = hour.window.start
        of_hour = delays[delays.hour == start].groupby("by").seconds
        waited = of_hour.agg(["min", "median", "max"])
        table.add_row(
            f"{start:%H:%M}",
            f"{hour.orders:,}",
            f"{hour.revenue:,.2f}",
            f"{runs[start].run_type}, {runs[start].seconds:.0f} s",
            _minutes(waited, HOURLY_RUN),
            *(_seconds(waited, name) for name in streams),
        )
    return table


def print_verdicts(console: Console, settings: Settings, verdicts: Sequence[Comparison]) -> None:
    """The verdict on each hour and mode; then the last hour's differences, some of each class."""
    table = Table(title=None, pad_edge=True)
    for name in ("hour (UTC)", "stream", "verdict", "orders", "of them differ, and why"):
        table.add_column(name, justify="right" if name == "orders" else "left")
    for line in verdicts:
        counts = ", ".join(f"{count:,} {kind}" for kind, count in line.counts.items())
        table.add_row(
            f"{line.window.start:%m-%d %H:%M}",
            line.mode,
            coloured(line.verdict, line.verdict),
            f"{line.orders_compared:,}",
            counts or line.reason or "none",
        )
    console.print(table)
    row_keys = plan_named(settings.project, MANIFEST).row_keys
    shown, found = examples(settings, verdicts[-1], EXAMPLES)
    if shown:
        console.print(differences(row_keys, verdicts[-1].mode, shown))
    if len(found) > len(shown):
        console.print(f"and {len(found) - len(shown):,} more of that hour and stream")


def _minutes(waited: "pd.DataFrame", name: str) -> str:
    if name not in waited.index:
        return "-"
    low, high = waited.loc[name, "min"] / 60, waited.loc[name, "max"] / 60
    return f"{low:.0f} to {high:.0f} min"


def _seconds(waited: "pd.DataFrame", name: str) -> str:
    if name not in waited.index:
        return "-"
    return f"{waited.loc[name, 'median']:.1f} s, max {waited.loc[name, 'max']:.1f} s"
