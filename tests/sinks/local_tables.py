"""Tables of every type whose writer makes its own commits, and what others commit to them."""

import random
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from lockstep.sinks.append_log import APPEND_ONLY, AppendLog

SCHEMA = pa.schema(
    {
        "number": pa.int64(),
        "small": pa.int16(),
        "name": pa.string(),
        "price": pa.decimal128(12, 2),
        "fine": pa.decimal128(38, 18),
        "share": pa.float64(),
        "is_paid": pa.bool_(),
        "day": pa.date32(),
        "at": pa.timestamp("us", "UTC"),
        "local": pa.timestamp("us"),
        "content": pa.binary(),
        "lines": pa.list_(pa.struct({"pizza": pa.string(), "count": pa.int32()})),
        "part": pa.string(),
    }
)
PARTS = [None, "public.orders", 'a "b" c', "ä%20é", "x/y", "a=b:c?d#e", "[z]{y}", " lead"]


def seeded() -> random.Random:
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # noqa: T201 - shown when a test fails
    return random.Random(seed)


def rows_of(rng: random.Random, count: int) -> pa.Table:
    """Rows of all types, with nulls; numbers are 1, 2, …"""
    first = datetime(2026, 1, 1, tzinfo=UTC)

    def some(value: Callable[[], Any]) -> Any:
        return None if rng.random() < 0.15 else value()

    def at() -> datetime:
        return first + timedelta(microseconds=rng.randrange(10**13))

    return pa.Table.from_pylist(
        [
            {
                "number": number,
                "small": some(lambda: rng.randrange(-(2**15), 2**15)),
                "name": some(lambda: rng.choice("aäz🍕'\"\\\n\U0010ffff") * rng.randrange(40)),
                "price": some(lambda: Decimal(rng.randrange(-(10**6), 10**6)) / 100),
                "fine": some(lambda: Decimal(rng.randrange(-3, 4)) / 10**18),
                "share": some(lambda: rng.choice([0.5, -0.25, 1e300])),
                "is_paid": some(lambda: rng.random() < 0.5),
                "day": some(lambda: date(1000, 1, 1) + timedelta(days=rng.randrange(3_000_000))),
                "at": some(at),
                "local": some(lambda: at().replace(tzinfo=None)),
                "content": some(lambda: rng.randbytes(3)),
                "lines": some(lambda: [{"pizza": "x", "count": 2}] * rng.randrange(3)),
                "part": rng.choice(PARTS),
            }
            for number in range(1, count + 1)
        ],
        SCHEMA,
    )


def in_order(table: pa.Table) -> list[str]:
    """Each row as text."""
    wanted = table.select(SCHEMA.names).cast(SCHEMA).sort_by("number")
    return [repr(row) for row in wanted.to_pylist()]


def small(*numbers: int, part: str = "a") -> pa.Table:
    return pa.Table.from_pylist([{"number": one, "part": part} for one in numbers], SCHEMA)


def log_at(folder: Path) -> AppendLog:
    return AppendLog(str(folder), SCHEMA, "part", 24, 77)


def numbers(table: DeltaTable | AppendLog) -> list[int]:
    opened = table if isinstance(table, DeltaTable) else DeltaTable(table.uri)
    return sorted(opened.to_pyarrow_table(columns=["number"])["number"].to_pylist())


def set_property(uri: str) -> None:
    DeltaTable(uri).alter.set_table_properties({"a": "b"}, raise_if_not_exists=False)


def delete_rows(uri: str) -> None:
    DeltaTable(uri).alter.set_table_properties({APPEND_ONLY: "false"})
    DeltaTable(uri).delete("number = 1")
    DeltaTable(uri).alter.set_table_properties({APPEND_ONLY: "true"})


def mark(uri: str) -> None:
    properties = CommitProperties(app_transactions=[Transaction("other", 1)])
    write_deltalake(uri, small(1), mode="append", commit_properties=properties)
