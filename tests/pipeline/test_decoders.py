"""Rows decoded against the table of types: exact values, what is unchanged, and errors by name."""

import json

import pytest
from lockstep.pipeline.catalog import Column
from lockstep.pipeline.decoders import UNCHANGED, RowDecoder
from lockstep.pipeline.errors import CatalogError
from lockstep.pipeline.types import value_type
from msgspec import Raw
from msgspec.structs import astuple

from tests.pipeline.array_samples import SAMPLES
from tests.pipeline.type_samples import ZONE, Sample, catalog_of, column_of

BY_PG = pytest.mark.parametrize("sample", SAMPLES, ids=lambda one: one.pg)


def decoder_of(*columns: Column, read: tuple[str, ...] | None = None) -> RowDecoder:
    catalog, table = catalog_of(*columns)
    read = read or tuple(column.name for column in columns)
    types = {name: value_type(table.column(name), table.name, catalog, ZONE) for name in read}
    return RowDecoder(table, read, types)


def row_of(text: str, name: str = "value") -> bytes:
    return f'{{"other":[],{json.dumps(name)}:{text}}}'.encode()


@BY_PG
def test_a_row_has_the_values_of_its_columns(sample: Sample) -> None:
    decoder = decoder_of(column_of(sample))
    for text, expected in sample.values.items():
        assert repr(astuple(decoder.decode(row_of(text)))) == repr((expected,))
    if sample.is_nullable:
        assert astuple(decoder.decode(row_of("null"))) == (None,)
    if sample.left_out is not None:
        assert astuple(decoder.decode(row_of(sample.left_out))) == (UNCHANGED,)


@BY_PG
def test_what_is_no_value_of_its_type_is_refused_with_its_column(sample: Sample) -> None:
    decoder = decoder_of(column_of(sample))
    wrong = {"{}": "is no", **sample.refused}
    for text, why in wrong.items():
        with pytest.raises(ValueError, match=r"^table plant\.readings, column value: ") as raised:
            decoder.decode(row_of(text))
        assert why in str(raised.value)


A, B = Column("a", "bigint", False), Column("we ird", "text")


def test_columns_come_in_the_order_asked_for_and_others_pass() -> None:
    decoder = decoder_of(A, B, read=("we ird", "a"))
    row = decoder.decode(b'{"a":1,"new":{"x":[1]},"we ird":"x"}')
    assert astuple(row) == ("x", 1)
    assert decoder.columns == ("we ird", "a")


def test_a_part_of_a_larger_record_is_decoded() -> None:
    assert decoder_of(A).decode(Raw(b'{"a":1}')).c0 == 1


def test_an_unchanged_value_leaves_the_others_as_they_are() -> None:
    columns = A, B, Column("n", "integer[]"), Column("price", "numeric(4,2)")
    raw = {"a": 1, "we ird": "__debezium_unavailable_value", "n": [95, 95], "price": "1.00"}
    a, text, numbers, price = astuple(decoder_of(*columns).decode(json.dumps(raw).encode()))
    assert (a, text, numbers, str(price)) == (1, UNCHANGED, [95, 95], "1.00")


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b'{"a":1}', "table plant.readings, column we ird: Object missing required field `we ird`"),
        (b'{"a":1,"we ird":5}', "column we ird: '5' is no text: Expected `str"),
        (b'{"a":null,"we ird":"x"}', "column a: 'null' is no bigint"),
        (b'{"a":1,"we ird":"\xff"}', "column we ird: "),
        (b"[]", "table plant.readings: Expected `object`, got `array`"),
        (b'{"a":1', "table plant.readings: "),
        (b'{"a":' + b"9" * 500 + b"}", "table plant.readings, column we ird: "),
    ],
)
def test_a_row_of_another_shape_is_a_value_error_with_table_and_column(
    raw: bytes, says: str
) -> None:
    with pytest.raises(ValueError, match=r"^table plant\.readings") as raised:
        decoder_of(A, B).decode(raw)
    assert says in str(raised.value)
    assert len(str(raised.value)) < 250


def test_a_column_that_the_table_lacks_is_an_error_when_the_decoder_is_made() -> None:
    catalog, table = catalog_of(A)
    with pytest.raises(CatalogError, match="has no column b"):
        RowDecoder(table, ["b"], {"b": value_type(A, table.name, catalog)})
