"""What the hourly runs and the streams delivered, from the Delta tables: totals, and delays.

The delay of an order under the hourly run is how long it waited until its run would have delivered
it: the end of its window, plus the five minutes until the run is due, plus the run's measured time,
less its order_time. Under a stream it is measured: from the database's commit until readable.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.model.modes import StreamMode
from lockstep.model.window import Window
from lockstep.model.windows import Windows
from lockstep.pipeline.names import sql_name
from lockstep.settings import Settings
from lockstep.sources.delta import open_table, run_query

from pizzeria.names import ORDERS_ENRICHED_BATCH, change_log_table

if TYPE_CHECKING:
    import pandas as pd

_SQL = Path(__file__).with_name("sql")


@dataclass(frozen=True)
class HourTotals:
    """One window of the hourly table."""

    window: Window
    orders: int
    pizzas: int
    revenue: Decimal


def totals(settings: Settings, windows: list[Window]) -> list[HourTotals]:
    """Orders, pizzas and revenue of each window, in the windows' order; quiet ones have zeros."""
    found = {row["hour"]: row for row in _hourly(settings, "hourly_totals", windows)}
    empty = {"orders": 0, "pizzas": 0, "revenue": None}
    return [
        HourTotals(
            window, row["orders"], row["pizzas"], (row["revenue"] or Decimal(0)).quantize(_CENT)
        )
        for window in windows
        for row in [found.get(window.start, empty)]
    ]


def hourly_delays(
    settings: Settings, windows: list[Window], run_seconds: Mapping[datetime, float]
) -> "pd.DataFrame":
    """One row an order: hour (its window's start), order_time, seconds.

    run_seconds: how long each window's run took, by the window's start.
    """
    delivered = {
        window.start: Windows().due_at(window) + timedelta(seconds=run_seconds[window.start])
        for window in windows
    }
    return _delays(
        (row["hour"], row["order_time"], delivered[row["hour"]] - row["order_time"])
        for row in _hourly(settings, "order_times", windows)
    )


def stream_delays(
    settings: Settings, mode: StreamMode, windows: list[Window], since: datetime
) -> "pd.DataFrame":
    """As hourly_delays, of the orders that were committed since then and that the stream has."""
    table = change_log_table(mode)
    rows = _query(settings, "stream_delays", {"change_log": table}, windows, since=since)
    return _delays(
        (row["hour"], row["order_time"], row["written_at"] - row["committed_at"]) for row in rows
    )


def _delays(rows: Iterable[tuple[datetime, datetime, timedelta]]) -> "pd.DataFrame":
    import pandas as pd

    return pd.DataFrame(
        [(hour, taken, delay.total_seconds()) for hour, taken, delay in rows],
        columns=["hour", "order_time", "seconds"],
    )


def _hourly(settings: Settings, name: str, windows: list[Window]) -> list[dict]:
    table = ORDERS_ENRICHED_BATCH
    return _query(settings, name, {sql_name(table): table}, windows)


_CENT = Decimal("0.01")


def _query(
    settings: Settings,
    name: str,
    tables: Mapping[str, str],
    windows: list[Window],
    **moments: datetime,
) -> list[dict]:
    """Answer the SQL file's question about the windows; tables: their names in it."""
    bounds = {"start": windows[0].start, "end": windows[-1].end, **moments}
    text = (_SQL / f"{name}.sql").read_text(encoding="utf-8")
    query = text.format(**{what: moment.isoformat() for what, moment in bounds.items()})
    opened = {alias: open_table(settings.table_uri(table)) for alias, table in tables.items()}
    return run_query(query, opened).read_all().to_pylist()
