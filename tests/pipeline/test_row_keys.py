"""Keys of rows: text and back, and as a condition that Delta's tables are asked with."""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from lockstep.pipeline.catalog import Catalog, Column, Table, TableName
from lockstep.pipeline.errors import PipelineError
from lockstep.pipeline.row_keys import RowKeys
from lockstep.pipeline.types import arrow_schema, value_type
from lockstep.sources.delta import run_query

TABLE = TableName("public", "t")
SAMPLES = {
    "smallint": [-3, 7],
    "bigint": [-(2**63), 2**63 - 1],
    "boolean": [True, False],
    "numeric(12,3)": [Decimal("-1.500"), Decimal("12345.678")],
    "text": ["it's", '["no list"]', "", "ü\n"],
    "uuid": ["5f0c3a52-8d0e-4c6e-9d2a-000000000001"],
    "date": [date(2020, 2, 29)],
    "timestamp with time zone": [datetime(2020, 2, 29, 12, 30, 1, 5, tzinfo=UTC)],
}


def keys_of(*types: str) -> RowKeys:
    columns = tuple(Column(f'c "{place}"', one, False) for place, one in enumerate(types))
    names = tuple(column.name for column in columns)
    catalog = Catalog("s", (Table(TABLE, columns, names),))
    return RowKeys(names, [value_type(column, TABLE, catalog) for column in columns])


@pytest.mark.parametrize("type_", SAMPLES)
def test_a_key_is_read_from_its_text(type_: str) -> None:
    keys = keys_of(type_)
    for value in SAMPLES[type_]:
        assert keys.read(keys.text((value,))) == (value,)


def test_of_one_column_the_plain_value_will_do() -> None:
    assert keys_of("bigint").read("17") == (17,)
    assert keys_of("text").read("it's") == ("it's",)
    assert keys_of("date").read("2020-02-29") == (date(2020, 2, 29),)


def test_of_two_columns_a_json_array_is_asked_for() -> None:
    keys = keys_of("uuid", "bigint")
    uuid = SAMPLES["uuid"][0]
    assert keys.read(f'["{uuid}", 3]') == (uuid, 3)
    with pytest.raises(PipelineError, match=r"write a JSON array of a string, a bigint"):
        keys.read("17")


@pytest.mark.parametrize("text", ["x", "[1, 2]", "[null]", "1.5", "[", ""])
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(PipelineError, match="is no key"):
        keys_of("bigint").read(text)


def test_a_key_for_people_is_its_plain_value() -> None:
    assert keys_of("bigint").shown("[17]") == "17"
    assert keys_of("text").shown('["it\'s"]') == "it's"
    assert keys_of("text", "bigint").shown('["a",1]') == '["a",1]'


@pytest.mark.parametrize(
    "types", [(one,) for one in SAMPLES] + [("text", "bigint"), ("date", "uuid", "numeric(12,3)")]
)
def test_a_condition_finds_the_rows_of_its_keys_and_no_others(
    types: tuple[str, ...], tmp_path: Path
) -> None:
    keys = keys_of(*types)
    samples = [SAMPLES[one] for one in types]
    rows = [tuple(one[n % len(one)] for one in samples) for n in range(max(map(len, samples)))]
    schema = arrow_schema(dict(zip(keys.names, keys.types, strict=True)))
    columns = [pa.array(column, field.type) for column, field in zip(zip(*rows), schema)]  # noqa: B905
    write_deltalake(str(tmp_path), pa.table(columns, schema=schema))
    for chosen in (rows, rows[:1], rows[1:], []):
        query = f"SELECT * FROM t WHERE {keys.condition(chosen)}"
        found = run_query(query, {"t": DeltaTable(str(tmp_path))}).read_all().to_pylist()
        assert {tuple(row.values()) for row in found} == set(chosen)
