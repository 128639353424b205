"""A view's row as psycopg gives it becomes what Arrow gives of a Delta table, of any columns."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from uuid import UUID

import pyarrow as pa
from lockstep.pipeline.result import Result
from lockstep.sources.window_rows import row_of

RESULT = Result(
    {
        "depot": "string",
        "number": "bigint",
        "sent_at": "timestamp",
        "due": "decimal(12,3)",
        "parts": "array<struct<label:string,price:decimal(8,2),made:date,weight:double>>",
        "notes": "map<string,int>",
    },
    ("depot", "number"),
    "sent_at",
)
AT = datetime(2026, 3, 28, 12, tzinfo=UTC)


def test_a_row_has_the_values_of_its_types() -> None:
    part = {"weight": 2, "label": "Ring", "price": 1.50, "made": "2026-03-01", "more": 1}
    read = {
        "depot": UUID(int=10),
        "number": 7,
        "sent_at": AT,
        "due": Decimal("1.250"),
        "parts": json.dumps([part, None, {"label": None}]),
        "notes": {"a": 1},
        "row_xid": 900,
    }
    found = row_of(RESULT, read)
    assert found.key == ("00000000-0000-0000-0000-00000000000a", 7)
    whole = {"label": "Ring", "price": Decimal("1.5"), "made": date(2026, 3, 1), "weight": 2.0}
    assert found.values == {
        "sent_at": AT,
        "due": Decimal("1.250"),
        "parts": [whole, None, dict.fromkeys(whole)],
        "notes": [("a", 1)],
    }
    assert found.origin == {"row_xid": 900}
    row = {**dict(zip(RESULT.key, found.key, strict=True)), **found.values}
    assert pa.Table.from_pylist([row], RESULT.schema).to_pylist() == [row]


def test_nulls_stay_nulls() -> None:
    read = dict.fromkeys(RESULT.columns) | {"depot": "x", "number": 1}
    assert row_of(RESULT, read).values == dict.fromkeys(RESULT.values)
