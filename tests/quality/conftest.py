"""A hand-made hourly table: what a run would have committed, and what a fault makes of it."""

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake
from lockstep.model.window import Window
from lockstep.pipeline.result_tables import HOURLY_PARTITION
from lockstep.settings import Settings
from pizzeria import names as pizzeria

PIZZA = pa.struct([("pizza", pa.string()), ("price", pa.decimal128(10, 2))])
SCHEMA = pa.schema(
    {
        "order_id": pa.int64(),
        "order_time": pa.timestamp("us", "UTC"),
        "client_name": pa.string(),
        "table_name": pa.string(),
        "pizzas": pa.list_(PIZZA),
        "window_date": pa.date32(),
        "run_id": pa.string(),
        "cut_snapshot": pa.string(),
        "cut_lsn": pa.int64(),
        "origin": pa.struct(
            {
                "tx_id": pa.int64(),
                "committed_at": pa.timestamp("us", "UTC"),
            }
        ),
    }
)
DAY = datetime(2015, 1, 1, tzinfo=UTC)


class HourlyTable:
    """The Delta table of one test's home, written by delta-rs in the shape of the hourly run."""

    schema = SCHEMA

    def __init__(self, home: Path) -> None:
        self.settings = Settings(home=home)
        self.uri = self.settings.table_uri(pizzeria.ORDERS_ENRICHED_BATCH)

    def window(self, hour: int, hours: int = 1) -> Window:
        return Window(DAY + timedelta(hours=hour), DAY + timedelta(hours=hour + hours))

    def orders(self, window: Window, count: int = 10) -> list[dict[str, Any]]:
        """Faultless orders, a minute apart; ids are unique over all windows."""
        first_id = int((window.start - DAY).total_seconds()) + 1
        hawaiian = {"pizza": "The Hawaiian Pizza (M)", "price": Decimal("13.25")}
        return [
            {
                "order_id": first_id + place,
                "order_time": window.start + timedelta(minutes=place),
                "client_name": f"Client {place}",
                "table_name": f"Table {place}",
                "pizzas": [hawaiian] * (1 + place % 2),
                "window_date": window.start.date(),
                "run_id": self.run_id(window),
                "cut_snapshot": "800:800:",
                "cut_lsn": 4242,
            }
            for place in range(count)
        ]

    def run_id(self, window: Window) -> str:
        return f"run of {window.start:%H}"

    def commit(
        self,
        window: Window,
        orders: Iterable[dict[str, Any]],
        orders_at_cut: int | None = None,
        schema: pa.Schema = SCHEMA,
    ) -> None:
        """Append the rows with a run's metadata; orders_at_cut defaults to their number."""
        rows = list(orders)
        metadata = {
            "run_id": self.run_id(window),
            "window": {"start": window.start.isoformat(), "end": window.end.isoformat()},
            "read_mode": "view",
            "orders_at_cut": len(rows) if orders_at_cut is None else orders_at_cut,
            "cut": {
                "snapshot": "800:800:",
                "marker_lsn": 4242,
                "taken_at": window.end.isoformat(),
            },
        }
        self.append(rows, schema, {"userMetadata": json.dumps(metadata)})

    def append(
        self,
        rows: list[dict[str, Any]],
        schema: pa.Schema = SCHEMA,
        metadata: dict[str, str] | None = None,
    ) -> None:
        write_deltalake(
            self.uri,
            pa.Table.from_pylist(rows, schema),
            mode="append",
            partition_by=[HOURLY_PARTITION],
            commit_properties=CommitProperties(custom_metadata=metadata),
        )


@pytest.fixture(scope="session")
def hourly_table_in() -> Callable[[Path], HourlyTable]:
    """Makes the table of a home folder."""
    return HourlyTable


@pytest.fixture
def hourly_table(tmp_path: Path) -> HourlyTable:
    return HourlyTable(tmp_path)
