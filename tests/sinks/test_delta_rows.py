"""Rows of some keys of a window are replaced in one commit, and no other row changes."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from lockstep.model.window import HOUR, Window
from lockstep.pipeline.catalog import Catalog, Column, ReplicaIdentity, Table, TableName
from lockstep.pipeline.row_keys import RowKeys, quoted
from lockstep.pipeline.types import value_type
from lockstep.sinks.delta_rows import replace_rows
from lockstep.sinks.window_conditions import inside_for_write

START = datetime(2026, 3, 28, 12, tzinfo=UTC)
WINDOW = Window(START, START + HOUR)
NAME = TableName("public", "shipment")
KEYS: dict[str, tuple[list[str], list[tuple[Any, ...]]]] = {
    "integer": (["integer"], [(1,), (2,), (3,)]),
    "text": (["text"], [("it's",), ('a "b"',), ("",)]),
    "uuid": (["uuid"], [(f"00000000-0000-0000-0000-00000000000{n}",) for n in "abc"]),
    "date": (["date"], [(date(2026, 3, n),) for n in (1, 2, 3)]),
    "numeric": (["numeric(8,2)"], [(Decimal(f"{n}.50"),) for n in (1, 2, 3)]),
    "timestamp": (["timestamp with time zone"], [(START + n * HOUR,) for n in (1, 2, 3)]),
    "two columns": (["text", "bigint"], [("x", 1), ("x", 2), ("y", 1)]),
}


def keys_of(types: list[str]) -> RowKeys:
    columns = tuple(Column(f'k "{n}"', pg, False) for n, pg in enumerate(types))
    table = Table(NAME, columns, (columns[0].name,), ReplicaIdentity.DEFAULT)
    catalog = Catalog("depot", (table,))
    found = [value_type(one, NAME, catalog) for one in columns]
    return RowKeys(tuple(one.name for one in columns), found)


def row(keys: RowKeys, key: tuple, at: datetime, label: str) -> dict[str, Any]:
    values = dict(zip(keys.names, key, strict=True))
    return {**values, "sent at": at, "label": label, "window_date": at.date()}


@pytest.mark.parametrize("name", KEYS)
def test_only_rows_of_these_keys_in_the_window_are_replaced(tmp_path: Path, name: str) -> None:
    types, [first, second, third] = KEYS[name]
    keys = keys_of(types)
    fields = [(name, one.arrow) for name, one in zip(keys.names, keys.types, strict=True)]
    time = pa.timestamp("us", "UTC")
    schema = pa.schema(
        [*fields, ("sent at", time), ("label", pa.string()), ("window_date", pa.date32())]
    )
    later = START + timedelta(hours=2)
    stay = [row(keys, third, START, "third"), row(keys, first, later, "later")]
    before = [*stay, row(keys, first, START, "first"), row(keys, second, START, "second")]
    write_deltalake(
        str(tmp_path), pa.Table.from_pylist(before, schema), partition_by=["window_date"]
    )
    new = row(keys, first, START, "new")
    inside = inside_for_write(WINDOW, quoted("sent at"))
    condition = f"{inside} AND {keys.condition([first, second])}"
    replace_rows(DeltaTable(str(tmp_path)), [new], condition, "the repair's")
    table = DeltaTable(str(tmp_path))
    found = table.to_pyarrow_table().select(schema.names).to_pylist()
    assert sorted(found, key=repr) == sorted([*stay, new], key=repr)
    assert table.version() == 1
    assert table.history(1)[0]["userMetadata"] == "the repair's"
