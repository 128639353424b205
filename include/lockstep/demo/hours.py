"""What the hourly runs delivered, hour by hour: totals from the Delta table, and delays.

The delay of an order is how long it waited until its hourly run would have delivered it: the end of
its window, plus the five minutes until the run is due, plus the run's measured time, less its
order_time.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from lockstep.airflow_ops.windows import due_at
from lockstep.contracts import ORDERS_ENRICHED_BATCH, PIPELINE, Window
from lockstep.settings import PROJECT_DIR, Settings
from lockstep.sources.delta import open_table, run_query

if TYPE_CHECKING:
    import pandas as pd

_SQL = PROJECT_DIR / "include" / "sql" / PIPELINE


@dataclass(frozen=True)
class HourTotals:
    """One window of the hourly table."""

    window: Window
    orders: int
    pizzas: int
    revenue: Decimal


def totals(settings: Settings, windows: list[Window]) -> list[HourTotals]:
    """Orders, pizzas and revenue of each window, in the windows' order; quiet ones have zeros."""
    found = {row["hour"]: row for row in _query(settings, "hourly_totals", windows)}
    empty = {"orders": 0, "pizzas": 0, "revenue": None}
    return [
        HourTotals(
            window, row["orders"], row["pizzas"], (row["revenue"] or Decimal(0)).quantize(_CENT)
        )
        for window in windows
        for row in [found.get(window.start, empty)]
    ]


def delays(
    settings: Settings, windows: list[Window], run_seconds: Mapping[datetime, float]
) -> "pd.DataFrame":
    """One row an order: hour (its window's start), order_time, delay_minutes.

    run_seconds: how long each window's run took, by the window's start.
    """
    import pandas as pd

    delivered = {
        window.start: due_at(window) + timedelta(seconds=run_seconds[window.start])
        for window in windows
    }
    rows = [
        (row["hour"], row["order_time"], (delivered[row["hour"]] - row["order_time"]) / _MINUTE)
        for row in _query(settings, "order_times", windows)
    ]
    return pd.DataFrame(rows, columns=["hour", "order_time", "delay_minutes"])


_CENT = Decimal("0.01")
_MINUTE = timedelta(minutes=1)


def _query(settings: Settings, name: str, windows: list[Window]) -> list[dict]:
    text = (_SQL / f"{name}.sql").read_text(encoding="utf-8")
    query = text.format(start=windows[0].start.isoformat(), end=windows[-1].end.isoformat())
    name_in_sql = ORDERS_ENRICHED_BATCH.rsplit("/", 1)[-1]
    table = open_table(settings.table_uri(ORDERS_ENRICHED_BATCH))
    return run_query(query, {name_in_sql: table}).read_all().to_pylist()
