"""One order over time, as each table tells it."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from lockstep.errors import LakehouseError
from lockstep.model.modes import StreamMode
from lockstep.parity.order_story import story_of
from lockstep.parity.report import story
from lockstep.pipeline.delta_types import arrow_schema
from lockstep.pizzeria import CHANGE_LOG_COLUMNS, ORDERS_ENRICHED_BATCH, change_log_table
from lockstep.settings import Settings
from rich.console import Console

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
LOG = arrow_schema(CHANGE_LOG_COLUMNS)


def change(lsn: int, op: str = "c", price: str = "9.50", **changed: object) -> dict:
    values = {
        "order_id": 7,
        "order_time": NOON,
        "client_name": "Ada",
        "table_name": "Table 3",
        "pizzas": [{"pizza": "Funghi", "price": Decimal(price)}],
        "op": op,
        "tx_id": 1000 + lsn,
        "commit_lsn": lsn,
        "is_raced": False,
        "committed_at": NOON + timedelta(seconds=lsn),
    }
    if op == "d":
        values |= dict.fromkeys(("order_time", "client_name", "table_name", "pizzas"))
    return values | changed


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Outbox and temporal agree; the look-up saw a price of later; then the order is cancelled."""
    settings = Settings(home=tmp_path)
    logs = {
        StreamMode.OUTBOX: [change(10), change(30, "d")],
        StreamMode.TEMPORAL: [change(10), change(30, "d"), change(10, order_id=8)],
        StreamMode.LOOKUP: [change(10, price="9.90", is_raced=True), change(30, "d")],
    }
    for mode, rows in logs.items():
        table = pa.Table.from_pylist(rows, LOG)
        write_deltalake(settings.table_uri(change_log_table(mode)), table)
    row = change(10, price="9.90") | {"cut_lsn": 20, "run_id": "r1"}
    names = [*LOG.names[:5], "cut_lsn", "run_id"]
    fields = [LOG.field(name) for name in names[:5]]
    schema = pa.schema([*fields, ("cut_lsn", pa.int64()), ("run_id", pa.string())])
    batch = pa.Table.from_pylist([{name: row[name] for name in names}], schema)
    write_deltalake(settings.table_uri(ORDERS_ENRICHED_BATCH), batch)
    return settings


def test_tables_that_agree_are_told_together_in_the_order_of_the_history(
    settings: Settings,
) -> None:
    moments = story_of(settings, 7)
    assert [(moment.commit_lsn, moment.what) for moment in moments] == [
        (10, "transaction 1010"),
        (20, "cut of run r1"),
        (30, "transaction 1030"),
    ]
    said = [[(state.modes, state.op) for state in moment.states] for moment in moments]
    assert said == [
        [(("lookup*",), "c"), (("outbox", "temporal"), "c")],
        [(("batch",), "")],
        [(("lookup", "outbox", "temporal"), "d")],
    ]


def test_it_fits_a_terminal(settings: Settings) -> None:
    console = Console(width=100, color_system=None)
    with console.capture() as captured:
        console.print(story(7, story_of(settings, 7)))
    text = captured.get()
    assert max(map(len, text.splitlines())) <= 100
    for words in ("outbox, temporal", "lookup*", "[Funghi 9.90]", "gone", "cut of run r1"):
        assert words in text


def test_an_order_that_nobody_has_is_an_error(settings: Settings) -> None:
    with pytest.raises(LakehouseError, match="has the order 99"):
        story_of(settings, 99)
