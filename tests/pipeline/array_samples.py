"""One column of every array type, as type_samples.py has those of the scalar types."""

from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa

from tests.pipeline.type_samples import (
    BYTES_LEFT_OUT,
    INFINITY,
    INSTANT,
    NAN,
    NUMBERS_LEFT_OUT,
    SCALARS,
    TEXT_LEFT_OUT,
    UUID_LEFT_OUT,
    Sample,
    at,
)

_NESTED = {"[null,null]": "Debezium sends the same for a nested array"}
_NESTED_TEXT = {'["[Ljava.lang.String;@1e205dac"]': "sends for a nested array", **_NESTED}
_EARLY = "does not send days before 1582-10-25 exactly in arrays"


def _array(pg: str, delta: str, element: pa.DataType, values: dict, **other: Any) -> Sample:
    other["refused"] = {**_NESTED, "[[1]]": "got `array`", **other.get("refused", {})}
    return Sample(
        f"{pg}[]", f"array<{delta}>", pa.list_(element), {"[]": [], **values}, False, **other
    )


ARRAYS = [
    _array(
        "smallint",
        "smallint",
        pa.int16(),
        {"[-32768,null]": [-32768, None]},
        refused={"[40000]": "<= 32767"},
    ),
    _array(
        "integer",
        "int",
        pa.int32(),
        {"[2147483647,null]": [2**31 - 1, None]},
        left_out=NUMBERS_LEFT_OUT,
    ),
    _array("bigint", "bigint", pa.int64(), {"[1]": [1]}, left_out=NUMBERS_LEFT_OUT),
    _array("real", "float", pa.float32(), {'[0.5,null,"NaN"]': [0.5, None, NAN]}),
    _array("double precision", "double", pa.float64(), {'[0.1,"Infinity"]': [0.1, INFINITY]}),
    _array(
        "text",
        "string",
        pa.string(),
        {'["a",null,"[L"]': ["a", None, "[L"]},
        left_out=f"[{TEXT_LEFT_OUT}]",
        refused=_NESTED_TEXT,
    ),
    _array(
        "character varying(20)",
        "string",
        pa.string(),
        {'["x"]': ["x"]},
        left_out=f"[{TEXT_LEFT_OUT}]",
        refused=_NESTED_TEXT,
    ),
    _array(
        "character(5)",
        "string",
        pa.string(),
        {'["ab   "]': ["ab   "]},
        left_out=f"[{TEXT_LEFT_OUT}]",
        refused=_NESTED_TEXT,
    ),
    _array(
        "json",
        "string",
        pa.string(),
        {'["[1]"]': ["[1]"]},
        left_out=f"[{TEXT_LEFT_OUT}]",
        refused=_NESTED_TEXT,
    ),
    _array(
        "jsonb",
        "string",
        pa.string(),
        {'["null",null]': ["null", None]},
        left_out=f"[{TEXT_LEFT_OUT}]",
        refused=_NESTED_TEXT,
    ),
    _array(
        "uuid",
        "string",
        pa.string(),
        {'["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]': ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]},
        left_out=UUID_LEFT_OUT,
        refused={'["[Ljava.util.UUID;@6b13f05a"]': "nested array"},
    ),
    _array(
        "bytea",
        "binary",
        pa.binary(),
        {'["AP8=",null]': [b"\x00\xff", None]},
        left_out=f"[{BYTES_LEFT_OUT}]",
    ),
    _array("boolean", "boolean", pa.bool_(), {"[true,null]": [True, None]}),
    _array(
        "date",
        "date",
        pa.date32(),
        {"[-141417,null]": [date(1582, 10, 25), None]},
        left_out=NUMBERS_LEFT_OUT,
        refused={"[-141418]": _EARLY},
    ),
    _array(
        "timestamp without time zone",
        "timestamp",
        INSTANT,
        {"[1774747800123456,null]": [at("2026-03-29 00:30:00.123456"), None]},
        refused={"[-12218860800000000]": _EARLY, "[1774751400000000]": "does not exist"},
    ),
    _array(
        "timestamp(3) without time zone",
        "timestamp",
        INSTANT,
        {"[1774747800123]": [at("2026-03-29 00:30:00.123")]},
    ),
    _array(
        "timestamp with time zone",
        "timestamp",
        INSTANT,
        {'["2026-03-29T02:30:00.123456Z"]': [at("2026-03-29 02:30:00.123456")]},
        refused={'["0044-03-15T12:00:00.000000Z"]': _EARLY, '["infinity"]': "is no timestamp"},
    ),
]
ARRAYS += [
    _array(
        "numeric(10,2)",
        "decimal(10,2)",
        pa.decimal128(10, 2),
        {'["1.50"]': [Decimal("1.50")]},
        is_nullable=False,
    ),
    _array(
        "mood",
        "string",
        pa.string(),
        {'["ok"]': ["ok"]},
        is_nullable=False,
        refused={'["new"]': "is no mood[]"},
    ),
    Sample("plant.numbers", "array<int>", pa.list_(pa.int32()), {"[1]": [1]}, False),
]
SAMPLES = [*SCALARS, *ARRAYS]
