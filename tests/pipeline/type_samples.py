"""One column of every scalar type, with what Debezium sends and what the value of it is.

The texts are those that Debezium 3.6.3 sends: test_types_through_debezium.py asks it again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from lockstep.pipeline.catalog import Catalog, Column, ReplicaIdentity, Table, TableName
from lockstep.pipeline.type_table import ValueType
from lockstep.pipeline.types import value_type

TABLE = TableName("plant", "readings")
ENUMS = {"mood": ("ok", 'sad "x"', "a,b"), '"Weird Schema".state': ("on", "off")}
DOMAINS = {
    "price": "numeric(10,2)",
    "net_price": "price",
    "plant.numbers": "integer[]",
    "plant.moment": "timestamp(3) without time zone",
    "plant.clock": "time(3) without time zone",
    "plant.code": "character(5)",
    "plant.label": "text",
    "plant.document": "jsonb",
    "plant.blob": "bytea",
    "named_mood": "mood",
    "any_number": "numeric",
}
ZONE = "Europe/Berlin"
INSTANT = pa.timestamp("us", "UTC")
TEXT_LEFT_OUT = '"__debezium_unavailable_value"'
BYTES_LEFT_OUT = '"X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="'
NUMBERS_LEFT_OUT = (
    "[95,95,100,101,98,101,122,105,117,109,95,117,110,97,118,97,105,108,97,98,108,101,95,118,97,"
    "108,117,101]"
)
UUID_LEFT_OUT = '["b68a35a7-17ad-35b3-af2a-ae46edb4545a"]'
NAN, INFINITY = float("nan"), float("inf")


@dataclass(frozen=True)
class Sample:
    """pg: the column's type; delta, arrow: what it is; values: by Debezium's JSON.

    left_out: Debezium's JSON for a large value that an update left as it was. refused: JSON of
    values that are refused, with a part of the message.
    """

    pg: str
    delta: str
    arrow: pa.DataType
    values: Mapping[str, Any]
    may_be_key: bool = True
    left_out: str | None = None
    refused: Mapping[str, str] = field(default_factory=dict)
    is_nullable: bool = True


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


SCALARS = [
    Sample(
        "smallint",
        "smallint",
        pa.int16(),
        {"-32768": -32768, "32767": 32767},
        refused={"32768": "'32768' is no smallint", "1.5": "got `float`", '"1"': "got `str`"},
    ),
    Sample(
        "integer",
        "int",
        pa.int32(),
        {"-2147483648": -(2**31), "2147483647": 2**31 - 1},
        refused={"2147483648": "<= 2147483647", "true": "got `bool`"},
    ),
    Sample(
        "bigint",
        "bigint",
        pa.int64(),
        {"-9223372036854775808": -(2**63), "9223372036854775807": 2**63 - 1},
        refused={"9223372036854775808": "<= 9223372036854775807"},
    ),
    Sample(
        "numeric(10,2)",
        "decimal(10,2)",
        pa.decimal128(10, 2),
        {'"-99999999.99"': Decimal("-99999999.99"), '"0.1"': Decimal("0.10")},
        left_out=TEXT_LEFT_OUT,
        refused={
            '"NAN"': "'NAN' is no number",
            '"Infinity"': "'Infinity' is no numeric(10,2)",
            '"100000000.00"': "is no numeric(10,2)",
            '"1.234"': "'1.234' is no numeric(10,2)",
            '"x"': "'x' is no numeric(10,2)",
            "1.5": "got `float`",
        },
    ),
    Sample(
        "numeric(38,38)",
        "decimal(38,38)",
        pa.decimal128(38, 38),
        {f'"0.{"9" * 38}"': Decimal(f"0.{'9' * 38}"), '"0"': Decimal("0E-38")},
        left_out=TEXT_LEFT_OUT,
        refused={'"1"': "is no numeric(38,38)"},
    ),
    Sample(
        "numeric(5,0)",
        "decimal(5,0)",
        pa.decimal128(5, 0),
        {'"-99999"': Decimal(-99999), '"0"': Decimal(0)},
        left_out=TEXT_LEFT_OUT,
        refused={'"0.5"': "is no numeric(5,0)"},
    ),
    Sample(
        "net_price",
        "decimal(10,2)",
        pa.decimal128(10, 2),
        {'"1.50"': Decimal("1.50")},
        left_out=TEXT_LEFT_OUT,
    ),
    Sample(
        "real",
        "float",
        pa.float32(),
        {
            "0.1": 0.10000000149011612,
            "3.4028235e+38": 3.4028234663852886e38,
            "1e-45": 1.401298464324817e-45,
            '"NaN"': NAN,
            '"-Infinity"': -INFINITY,
        },
        may_be_key=False,
        refused={'"nan"': "is no real", "1e39": "is no real"},
    ),
    Sample(
        "double precision",
        "double",
        pa.float64(),
        {
            "5e-324": 5e-324,
            "1.7976931348623157e+308": 1.7976931348623157e308,
            "-0.0": -0.0,
            "1": 1.0,
            '"NaN"': NAN,
            '"Infinity"': INFINITY,
        },
        may_be_key=False,
        refused={'"1.5"': "is no double precision"},
    ),
    Sample(
        "text",
        "string",
        pa.string(),
        {'""': "", r'"a\"\\\u2028é😀"': 'a"\\\u2028é😀'},
        left_out=TEXT_LEFT_OUT,
        refused={"1": "got `int`"},
    ),
    Sample(
        "character varying(20)", "string", pa.string(), {'"x  "': "x  "}, left_out=TEXT_LEFT_OUT
    ),
    Sample("character varying", "string", pa.string(), {'"x"': "x"}, left_out=TEXT_LEFT_OUT),
    Sample(
        "character(5)",
        "string",
        pa.string(),
        {'"ab   "': "ab   ", '"     "': "     "},
        left_out=TEXT_LEFT_OUT,
    ),
    Sample(
        "boolean", "boolean", pa.bool_(), {"true": True, "false": False}, refused={"1": "got `int`"}
    ),
    Sample(
        "date",
        "date",
        pa.date32(),
        {"-719162": date(1, 1, 1), "2932896": date(9999, 12, 31), "0": date(1970, 1, 1)},
        refused={
            "-2147472692": "is no date",
            "-2147472691": "is no date",
            "-622191234": "is no date",
            "-719163": ">= -719162",
            "2932897": "<= 2932896",
        },
    ),
    Sample(
        "timestamp without time zone",
        "timestamp",
        INSTANT,
        {
            "1774746000000000": at("2026-03-29 00:00"),
            "1774749599999999": at("2026-03-29 00:59:59.999999"),
            "1774753200000000": at("2026-03-29 01:00"),
            "253402300799999999": at("9999-12-31 22:59:59.999999"),
        },
        refused={
            "1774751400000000": "2026-03-29 02:30:00 does not exist in Europe/Berlin",
            "1792895400000000": "2026-10-25 02:30:00 is there twice in Europe/Berlin",
            "-62135596800000000": "0001-01-01 00:00:00 in Europe/Berlin is out of range",
            "9223372036825200000": "is no timestamp",
            "-9223372036832400000": "is no timestamp",
            "-9223372036853775810": "is no timestamp",
            "253402300800000000": "is no timestamp",
        },
    ),
    Sample(
        "timestamp(3) without time zone",
        "timestamp",
        INSTANT,
        {"1774747800123": at("2026-03-29 00:30:00.123"), "-1000": at("1969-12-31 22:59:59")},
        refused={"9223372036825200": "is no timestamp(3)", "253402300800000": "is no timestamp"},
    ),
    Sample(
        "timestamp(4) without time zone",
        "timestamp",
        INSTANT,
        {"1767225600123400": at("2025-12-31 23:00:00.1234")},
    ),
    Sample(
        "timestamp with time zone",
        "timestamp",
        INSTANT,
        {
            '"0001-01-01T00:00:00.000000Z"': at("0001-01-01"),
            '"9999-12-31T23:59:59.999999Z"': at("9999-12-31 23:59:59.999999"),
        },
        refused={
            '"infinity"': "is no timestamp with time zone",
            '"-infinity"': "is no timestamp",
            '"+10000-01-01T00:00:00.000000Z"': "is no timestamp",
            '"-0043-03-15T12:00:00.000000Z"': "is no timestamp",
            '"2026-01-01T00:00:00"': "is no timestamp",
            "5": "got `int`",
        },
    ),
    Sample(
        "timestamp(3) with time zone",
        "timestamp",
        INSTANT,
        {'"2025-12-31T22:00:00.120Z"': at("2025-12-31 22:00:00.120")},
    ),
    Sample(
        "time without time zone",
        "string",
        pa.string(),
        {
            "0": "00:00:00",
            "86399999999": "23:59:59.999999",
            "86400000000": "24:00:00",
            "43200120000": "12:00:00.12",
        },
        refused={"86400000001": "<= 86400000000", "-1": ">= 0"},
    ),
    Sample(
        "time(3) without time zone",
        "string",
        pa.string(),
        {"43200123": "12:00:00.123", "86400000": "24:00:00"},
        refused={"86400001": "<= 86400000"},
    ),
    Sample(
        "uuid",
        "string",
        pa.string(),
        {'"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"': "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"},
    ),
    Sample(
        "json",
        "string",
        pa.string(),
        {r'"{\"a\": 1, \"a\":2}"': '{"a": 1, "a":2}'},
        may_be_key=False,
        left_out=TEXT_LEFT_OUT,
    ),
    Sample(
        "jsonb", "string", pa.string(), {'"null"': "null"}, may_be_key=False, left_out=TEXT_LEFT_OUT
    ),
    Sample(
        "bytea",
        "binary",
        pa.binary(),
        {'"AP8="': b"\x00\xff", '""': b""},
        left_out=BYTES_LEFT_OUT,
        refused={'"A"': "is no bytea"},
    ),
    Sample(
        "mood",
        "string",
        pa.string(),
        {r'"sad \"x\""': 'sad "x"', '"a,b"': "a,b"},
        refused={'"new"': "'\"new\"' is no mood"},
    ),
    Sample("plant.moment", "timestamp", INSTANT, {"1774747800123": at("2026-03-29 00:30:00.123")}),
    Sample("plant.clock", "string", pa.string(), {"43200123": "12:00:00.123"}),
    Sample("plant.code", "string", pa.string(), {'"ab   "': "ab   "}, left_out=TEXT_LEFT_OUT),
    Sample('"Weird Schema".state', "string", pa.string(), {'"on"': "on"}),
]


def column_of(sample: Sample) -> Column:
    return Column("value", sample.pg, sample.is_nullable)


def catalog_of(
    *columns: Column, identity: ReplicaIdentity = ReplicaIdentity.FULL
) -> tuple[Catalog, Table]:
    """A catalog of one table with these columns."""
    table = Table(TABLE, columns, (), identity)
    return Catalog("depot", (table,), ENUMS, DOMAINS), table


def type_of(sample: Sample) -> ValueType:
    column = column_of(sample)
    return value_type(column, TABLE, catalog_of(column)[0], ZONE)
