"""The table of types, each row with extremes, nulls and placeholders; refusals; names; keys."""

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from lockstep.pipeline.catalog import Column, ReplicaIdentity
from lockstep.pipeline.errors import CatalogError, TypeRefusedError
from lockstep.pipeline.type_table import ValueType
from lockstep.pipeline.types import arrow_schema, ddl, key_text, value_type

from tests.pipeline.array_samples import ARRAYS, SAMPLES
from tests.pipeline.type_samples import (
    SCALARS,
    TABLE,
    ZONE,
    Sample,
    catalog_of,
    column_of,
    type_of,
)

BY_PG = pytest.mark.parametrize("sample", SAMPLES, ids=lambda one: one.pg)
SEED = 20261123


def decoded(type_: ValueType, json: str) -> Any:
    return msgspec.json.decode(json, type=type_.decoded)


def with_nan(value: Any) -> Any:
    """Floats as text: NaN equals nothing, not even itself."""
    if isinstance(value, list):
        return [with_nan(item) for item in value]
    return repr(value) if isinstance(value, float) else value


@BY_PG
def test_a_type_has_its_names_in_every_system(sample: Sample) -> None:
    found = type_of(sample)
    assert (found.delta, found.arrow, found.may_be_key) == (
        sample.delta,
        sample.arrow,
        sample.may_be_key,
    )


@BY_PG
def test_a_value_is_what_arrow_gives_back(sample: Sample) -> None:
    type_ = type_of(sample)
    for json, expected in sample.values.items():
        value = type_.value(decoded(type_, json))
        assert with_nan(value) == with_nan(expected)
        (back,) = pa.array([value], type_.arrow).to_pylist()
        assert with_nan(back) == with_nan(expected)
        assert type(back) is type(value)


@BY_PG
def test_a_null_stays_one_and_is_refused_where_the_column_has_none(sample: Sample) -> None:
    column = column_of(sample)
    catalog, _ = catalog_of(column)
    sure = value_type(replace(column, is_nullable=False), TABLE, catalog, ZONE)
    assert sure.value(None) is None
    with pytest.raises(msgspec.ValidationError):
        decoded(sure, "null")
    if sample.is_nullable:
        assert type_of(sample).value(decoded(type_of(sample), "null")) is None


@BY_PG
def test_a_placeholder_is_known_and_no_value_is_taken_for_one(sample: Sample) -> None:
    type_ = type_of(sample)
    assert not any(type_.is_placeholder(decoded(type_, json)) for json in sample.values)
    assert not type_.is_placeholder(None)
    if sample.left_out is not None:
        assert type_.is_placeholder(decoded(type_, sample.left_out))
    else:
        assert type_.placeholder is None


def test_a_value_in_an_error_is_bounded() -> None:
    type_ = type_of(Sample("numeric(10,2)", "", pa.null(), {}))
    with pytest.raises(ValueError, match=r"^'1{60}'… \(100 characters\) is no numeric\(10,2\)$"):
        type_.value("1" * 100)


def test_numbers_of_32_bits_are_read_as_exactly_as_they_are_written() -> None:
    type_ = type_of(Sample("real", "", pa.null(), {}))
    pick = random.Random(SEED)
    bits = [pick.getrandbits(32) for _ in range(20_000)]
    numbers = pa.array(bits, pa.uint32()).view(pa.float32())
    finite = numbers.filter(pa.compute.is_finite(numbers))
    texts = finite.cast(pa.string()).to_pylist()
    back = pa.array([type_.value(decoded(type_, text)) for text in texts], pa.float32())
    assert back.equals(finite), f"seed {SEED}"


REFUSED = {
    "numeric": r"without a precision .* ALTER the column to numeric\(p,s\) with p <= 38",
    "any_number": r"without a precision",
    "numeric(39,2)": r"at most 38 digits",
    "numeric(1000,0)": r"at most 38 digits",
    "numeric(5,-2)": r"a scale from 0 to its precision",
    "numeric(3,5)": r"a scale from 0 to its precision",
    "interval": r"approximate number of microseconds; keep its parts",
    "interval day to second(3)": r"approximate number of microseconds",
    "time with time zone": r"use timestamp with time zone",
    "time(3) with time zone": r"use timestamp with time zone",
    "money": r"numeric\(19,2\) is exact",
    "int4range": r"keep its bounds in two columns",
    "tstzmultirange": r"keep its bounds in two columns",
    "plant.address": r"composite type or one of an extension",
    '"Weird type"': r"composite type",
    "xml": r"text holds it",
    "hstore": r"jsonb holds it",
    "point": r"coordinates in columns of numbers",
    "geometry(Point,4326)": r"composite type or one of an extension",
    "citext": r"without regard to case",
    "public.citext": r"without regard to case",
    "bit(3)": r"use boolean, or bytea",
    "bit varying(5)": r"use boolean, or bytea",
    "bpchar": r"use text",
    '"char"': r"composite type or one of an extension",
    "inet": r"composite type or one of an extension",
    "money[]": r"numeric\(19,2\)",
    "named_mood": r"connector does not start while a database has a domain over an enum",
    "price[]": r"arrays of a domain out of its events; .* an array of numeric\(10,2\)",
    "time without time zone[]": r"cuts the times of an array to milliseconds",
    "numeric[]": r"without a precision",
    "numeric(10,2)[]": r"sends null for such an array with NaN in it",
    "mood[]": r"sends null for such an array with a null in it",
}


@pytest.mark.parametrize("pg", REFUSED)
def test_a_type_that_is_not_exact_is_refused_with_what_to_do(pg: str) -> None:
    column = Column("value", pg)
    with pytest.raises(TypeRefusedError, match=REFUSED[pg]) as raised:
        value_type(column, TABLE, catalog_of(column)[0], ZONE)
    assert str(raised.value).startswith(
        f"table plant.readings, column value: type {pg} is refused: "
    )
    assert not raised.value.restart_helps


@pytest.mark.parametrize("sample", ARRAYS, ids=lambda one: one.pg)
@pytest.mark.parametrize("identity", sorted(set(ReplicaIdentity) - {ReplicaIdentity.FULL}))
def test_an_array_without_a_placeholder_needs_the_whole_row_before(
    sample: Sample, identity: ReplicaIdentity
) -> None:
    column = column_of(sample)
    catalog, _ = catalog_of(column, identity=identity)
    if sample.left_out is not None:
        assert value_type(column, TABLE, catalog, ZONE).placeholder is not None
        return
    with pytest.raises(TypeRefusedError, match="ALTER TABLE … REPLICA IDENTITY FULL"):
        value_type(column, TABLE, catalog, ZONE)


@pytest.mark.parametrize("zone", [None, "Mars/Olympus", "../etc/passwd", ""])
def test_a_local_time_needs_a_zone_that_there_is(zone: str | None) -> None:
    column = Column("value", "timestamp without time zone")
    with pytest.raises(TypeRefusedError, match=r"`time_zones` in the manifest|no time zone '"):
        value_type(column, TABLE, catalog_of(column)[0], zone)


def test_in_utc_no_local_time_is_refused() -> None:
    column = Column("value", "timestamp without time zone")
    type_ = value_type(column, TABLE, catalog_of(column)[0], "UTC")
    first = decoded(type_, "-62135596800000000")
    assert type_.value(first) == datetime(1, 1, 1, tzinfo=UTC)
    assert type_.value(1774751400000000) == datetime(2026, 3, 29, 2, 30, tzinfo=UTC)


def test_an_enum_without_labels_is_refused() -> None:
    column = Column("value", "mood")
    catalog = replace(catalog_of(column)[0], enums={"mood": ()})
    with pytest.raises(TypeRefusedError, match="ADD VALUE"):
        value_type(column, TABLE, catalog)


def test_an_array_of_a_table_that_the_catalog_lacks_is_an_error() -> None:
    column = Column("value", "integer[]")
    catalog = replace(catalog_of(column)[0], tables=())
    with pytest.raises(CatalogError, match=r"no table plant\.readings"):
        value_type(column, TABLE, catalog)


def test_columns_have_a_schema_and_a_ddl() -> None:
    types = {"id": type_of(SCALARS[2]), "a`b": type_of(ARRAYS[1])}
    assert ddl(types) == "`id` bigint, `a``b` array<int>"
    assert arrow_schema(types) == pa.schema({"id": pa.int64(), "a`b": pa.list_(pa.int32())})


def key_type(pg: str) -> ValueType:
    column = Column("value", pg)
    return value_type(column, TABLE, catalog_of(column)[0], ZONE)


@pytest.mark.parametrize(
    ("pg", "values", "text"),
    [
        ("bigint", [-(2**63)], "[-9223372036854775808]"),
        ("numeric(10,2)", [Decimal("1.00"), Decimal("1.0"), Decimal(1)], "[1]"),
        ("numeric(10,2)", [Decimal("-0.50"), Decimal("-.5")], "[-0.5]"),
        ("numeric(10,2)", [Decimal("-0.00"), Decimal("0E+3")], "[0]"),
        ("numeric(10,2)", [Decimal("1E+2"), Decimal("100.00")], "[100]"),
        ("text", ['a"\\\n'], r'["a\"\\\n"]'),
        ("character(5)", ["ab   ", "ab"], '["ab"]'),
        ("character(5)", ["     "], '[""]'),
        ("character varying(5)", ["ab "], '["ab "]'),
        ("boolean", [True], "[true]"),
        ("uuid", ["A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"],
         '["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]'),
        ("bytea", [b"\x00\xff"], '["AP8="]'),
        ("date", [date(1, 1, 1)], '["0001-01-01"]'),
        ("timestamp with time zone",
         [datetime(2026, 1, 1, tzinfo=UTC),
          datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))],
         '["2026-01-01T00:00:00.000000Z"]'),
        ("time without time zone", ["24:00:00"], '["24:00:00"]'),
        ("mood", ["a,b"], '["a,b"]'),
    ],
)  # fmt: skip
def test_equal_keys_have_one_text(pg: str, values: list, text: str) -> None:
    assert {key_text([value], [key_type(pg)]) for value in values} == {text}


def test_a_key_of_several_columns_is_one_array() -> None:
    types = [key_type("text"), key_type("integer"), key_type("text")]
    assert key_text(["null", None, None], types) == '["null",null,null]'


@pytest.mark.parametrize("pg", ["real", "double precision", "json", "jsonb", "integer[]"])
def test_a_type_that_is_no_key_is_refused_as_one(pg: str) -> None:
    assert not key_type(pg).may_be_key
    with pytest.raises(ValueError, match="is no type of a key"):
        key_text([None], [key_type(pg)])


def test_a_key_needs_a_value_for_each_column() -> None:
    with pytest.raises(ValueError, match="longer"):
        key_text([1], [key_type("integer")] * 2)


def random_text(pick: random.Random) -> str:
    return "".join(pick.choices('",[]\\ \u2028aé0n', k=pick.randrange(4)))


PICKS: dict[str, Callable[[random.Random], Any]] = {
    "integer": lambda pick: pick.randrange(-3, 3),
    "numeric(10,2)": lambda pick: Decimal(pick.randrange(-300, 300)).scaleb(-pick.randrange(3)),
    "text": random_text,
    "bytea": lambda pick: pick.randbytes(pick.randrange(3)),
    "boolean": lambda pick: pick.random() < 0.5,
    "date": lambda pick: date(2026, 1, 1) + timedelta(days=pick.randrange(5)),
    "timestamp with time zone": lambda pick: datetime(
        2026, 1, 1, pick.randrange(3), 0, 0, pick.randrange(2),
        timezone(timedelta(hours=pick.randrange(3))),
    ),
}  # fmt: skip


def test_two_keys_have_one_text_if_and_only_if_they_are_equal() -> None:
    """Python's equality of these values is PostgreSQL's."""
    pick = random.Random(SEED)
    for _ in range(40):
        columns = pick.choices(list(PICKS), k=pick.randrange(1, 4))
        types = [key_type(pg) for pg in columns]
        texts: dict[tuple, str] = {}
        for _ in range(300):
            key = tuple(None if pick.random() < 0.1 else PICKS[pg](pick) for pg in columns)
            text = key_text(key, types)
            assert texts.setdefault(key, text) == text, f"seed {SEED}: {columns} {key}"
        assert len(set(texts.values())) == len(texts), f"seed {SEED}: {columns}"


def test_nan_is_no_numeric_that_may_be_a_key() -> None:
    with pytest.raises(ValueError, match="'NAN' is no number that Delta holds"):
        key_type("numeric(10,2)").value("NAN")
