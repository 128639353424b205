"""What the demonstration says an hour delivered, and how long its orders waited."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from lockstep.model.modes import StreamMode
from lockstep.pipeline.delta_types import arrow_schema
from lockstep.settings import Settings
from pizzeria.demo.delay_chart import HOURLY_RUN, headline, save_delay_chart
from pizzeria.demo.hours import hourly_delays, stream_delays, totals
from pizzeria.demo.live_orders import order_times
from pizzeria.demo.story import past_windows
from pizzeria.names import ORDERS_ENRICHED_BATCH, change_log_table

from tests.pizzeria_tables import CHANGE_LOG_COLUMNS

NOON = datetime(2024, 2, 28, 12, tzinfo=UTC)
WINDOWS = past_windows(NOON + timedelta(minutes=5), hours=2)
LATER = NOON + timedelta(minutes=30)
PIZZA = pa.struct([("pizza", pa.string()), ("price", pa.decimal128(10, 2))])
SCHEMA = pa.schema(
    {"order_id": pa.int64(), "order_time": pa.timestamp("us", "UTC"), "pizzas": pa.list_(PIZZA)}
)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A table with two orders of 11:00 to 12:00, one of them without pizzas; a stream's with four
    changes, two of them new orders of since LATER."""
    chosen = Settings(home=tmp_path)
    funghi = {"pizza": "Funghi", "price": Decimal("9.50")}
    rows = [
        {"order_id": 1, "order_time": NOON - timedelta(minutes=60), "pizzas": [funghi, funghi]},
        {"order_id": 2, "order_time": NOON - timedelta(minutes=1), "pizzas": []},
    ]
    table = pa.Table.from_pylist(rows, SCHEMA)
    write_deltalake(chosen.table_uri(ORDERS_ENRICHED_BATCH), table)
    changes = [
        change(1, "c", LATER, 0.5),
        change(2, "c", LATER + timedelta(seconds=1), 1.5),
        change(1, "u", LATER + timedelta(seconds=2), 2.5),
        change(3, "c", LATER - timedelta(seconds=1), 3.5),
    ]
    log = pa.Table.from_pylist(changes, arrow_schema(CHANGE_LOG_COLUMNS))
    write_deltalake(chosen.table_uri(change_log_table(StreamMode.OUTBOX)), log)
    return chosen


def change(order_id: int, op: str, committed_at: datetime, seconds: float) -> dict:
    return {
        **dict.fromkeys(CHANGE_LOG_COLUMNS),
        "order_id": order_id,
        "op": op,
        "order_time": NOON - timedelta(minutes=order_id),
        "committed_at": committed_at,
        "written_at": committed_at + timedelta(seconds=seconds),
    }


def test_only_windows_whose_run_is_due_are_taken() -> None:
    assert past_windows(NOON + timedelta(minutes=4, seconds=59))[-1].end == NOON - timedelta(
        hours=1
    )
    assert past_windows(NOON + timedelta(minutes=5))[-1].end == NOON


def test_live_orders_are_of_the_windows_in_order() -> None:
    times = order_times(WINDOWS, per_window=50, seed=1)
    assert times == sorted(times)
    for window, of_window in zip(WINDOWS, (times[:50], times[50:]), strict=True):
        assert all(window.start <= moment < window.end for moment in of_window)


def test_totals_have_a_line_for_every_hour_also_the_quiet(settings: Settings) -> None:
    quiet, busy = totals(settings, WINDOWS)
    assert (quiet.orders, quiet.pizzas, quiet.revenue) == (0, 0, Decimal(0))
    assert (busy.orders, busy.pizzas, busy.revenue) == (2, 2, Decimal("19.00"))


def test_an_order_waits_until_its_run_has_delivered_it(settings: Settings) -> None:
    seconds = {window.start: 30.0 for window in WINDOWS}
    waited = hourly_delays(settings, WINDOWS, seconds)
    assert list(waited.seconds / 60) == [65.5, 6.5]


def test_a_streams_delay_is_that_of_new_orders_of_the_demonstration(settings: Settings) -> None:
    waited = stream_delays(settings, StreamMode.OUTBOX, WINDOWS, since=LATER)
    assert sorted(waited.seconds) == [0.5, 1.5]
    assert set(waited.hour) == {WINDOWS[-1].start}


def test_the_chart_is_a_picture_with_both_in_a_sentence(settings: Settings, tmp_path: Path) -> None:
    hourly = hourly_delays(settings, WINDOWS, {window.start: 30.0 for window in WINDOWS})
    streamed = stream_delays(settings, StreamMode.OUTBOX, WINDOWS, since=LATER)
    delays = pd.concat([hourly.assign(by=HOURLY_RUN), streamed.assign(by="outbox")])
    assert headline(delays) == (
        "An order waits 6.5 to 65.5 minutes for its hourly run, and 1.0 s for a stream"
    )
    chart = tmp_path / "new folder" / "delay.png"
    save_delay_chart(delays, chart)
    assert chart.read_bytes().startswith(b"\x89PNG")
