"""Small change logs made by hand, for the tests of the checks."""

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from lockstep.model.modes import StreamMode
from lockstep.settings import Settings
from pizzeria.names import change_log_table

from tests.pizzeria_tables import CHANGE_LOG_COLUMNS

NOON = datetime(2024, 2, 28, 12, 0, tzinfo=UTC)
PIZZAS = pa.list_(pa.struct([("pizza", pa.string()), ("price", pa.decimal128(10, 2))]))
TYPES = {
    "bigint": pa.int64(),
    "string": pa.string(),
    "timestamp": pa.timestamp("us", "UTC"),
    "boolean": pa.bool_(),
    "date": pa.date32(),
}
SCHEMA = pa.schema([(name, TYPES.get(kind, PIZZAS)) for name, kind in CHANGE_LOG_COLUMNS.items()])


def pizzas(*prices: str) -> list[dict]:
    return [{"pizza": f"Pizza {price}", "price": Decimal(price)} for price in prices]


def change(order_id: int, commit_lsn: int, prices: Sequence[str] = ("8.50",), **other) -> dict:
    """A row: an update of the order unless said otherwise; a delete names nothing."""
    row = {
        "order_id": order_id,
        "order_time": NOON,
        "client_name": "Anna",
        "table_name": "Table 1",
        "pizzas": pizzas(*prices),
        "op": "u",
        "tx_id": commit_lsn or None,
        "commit_lsn": commit_lsn,
        "is_raced": False,
        **dict.fromkeys(("committed_at", "captured_at", "seen_at", "written_at"), NOON),
        "commit_date": NOON.date(),
    } | other
    if row["op"] == "d":
        row |= dict.fromkeys(("order_time", "client_name", "table_name", "pizzas"))
    return row


def settings_of(lakehouse: Path) -> Settings:
    return Settings(home=lakehouse / "home", lakehouse=str(lakehouse))


def append(settings: Settings, mode: StreamMode, frontier: int, *rows: dict) -> str:
    """One commit, as the streams make them; gives the table's folder."""
    folder = settings.table_uri(change_log_table(mode))
    marks = CommitProperties(app_transactions=[Transaction("1/frontier", frontier)])
    table = pa.Table.from_pylist(list(rows), SCHEMA)
    if rows or not DeltaTable.is_deltatable(folder):
        write_deltalake(
            folder, table, mode="append", partition_by=["commit_date"], commit_properties=marks
        )
    else:
        DeltaTable(folder).create_write_transaction([], "append", SCHEMA, commit_properties=marks)
    return folder
