"""What the demonstration says an hour delivered, and how long its orders waited."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from lockstep.contracts import ORDERS_ENRICHED_BATCH
from lockstep.demo.delay_chart import save_delay_chart
from lockstep.demo.hours import delays, totals
from lockstep.demo.story import past_windows
from lockstep.settings import Settings

NOON = datetime(2024, 2, 28, 12, tzinfo=UTC)
WINDOWS = past_windows(NOON + timedelta(minutes=5), hours=2)
PIZZA = pa.struct([("pizza", pa.string()), ("price", pa.decimal128(10, 2))])
SCHEMA = pa.schema(
    {"order_id": pa.int64(), "order_time": pa.timestamp("us", "UTC"), "pizzas": pa.list_(PIZZA)}
)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A table with two orders of 11:00 to 12:00, one of them without pizzas."""
    chosen = Settings(home=tmp_path)
    funghi = {"pizza": "Funghi", "price": Decimal("9.50")}
    rows = [
        {"order_id": 1, "order_time": NOON - timedelta(minutes=60), "pizzas": [funghi, funghi]},
        {"order_id": 2, "order_time": NOON - timedelta(minutes=1), "pizzas": []},
    ]
    table = pa.Table.from_pylist(rows, SCHEMA)
    write_deltalake(chosen.table_uri(ORDERS_ENRICHED_BATCH), table)
    return chosen


def test_only_windows_whose_run_is_due_are_taken() -> None:
    assert past_windows(NOON + timedelta(minutes=4, seconds=59))[-1].end == NOON - timedelta(
        hours=1
    )
    assert past_windows(NOON + timedelta(minutes=5))[-1].end == NOON


def test_totals_have_a_line_for_every_hour_also_the_quiet(settings: Settings) -> None:
    quiet, busy = totals(settings, WINDOWS)
    assert (quiet.orders, quiet.pizzas, quiet.revenue) == (0, 0, Decimal(0))
    assert (busy.orders, busy.pizzas, busy.revenue) == (2, 2, Decimal("19.00"))


def test_an_order_waits_until_its_run_has_delivered_it(settings: Settings) -> None:
    seconds = {window.start: 30.0 for window in WINDOWS}
    waited = delays(settings, WINDOWS, seconds)
    assert list(waited.delay_minutes) == [65.5, 6.5]


def test_the_chart_is_a_picture(settings: Settings, tmp_path: Path) -> None:
    waited = delays(settings, WINDOWS, {window.start: 30.0 for window in WINDOWS})
    chart = tmp_path / "new folder" / "delay.png"
    save_delay_chart(waited, chart)
    assert chart.read_bytes().startswith(b"\x89PNG")
