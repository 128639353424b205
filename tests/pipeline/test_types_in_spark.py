"""Every type's extremes through Spark, and through a Delta table that delta-rs wrote."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from lockstep.pipeline.types import arrow_schema, ddl

from tests.pipeline.array_samples import SAMPLES
from tests.pipeline.type_samples import type_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TYPES = {f"v{number}": type_of(sample) for number, sample in enumerate(SAMPLES)}
ROWS = max(len(sample.values) for sample in SAMPLES) + 1


@pytest.fixture(scope="module")
def table() -> pa.Table:
    """Row by row the samples' values; nulls behind the last."""
    values = [list(sample.values.values()) for sample in SAMPLES]
    columns = [some + [None] * (ROWS - len(some)) for some in values]
    schema = arrow_schema(TYPES)
    return pa.table(
        [pa.array(column, one.type) for column, one in zip(columns, schema, strict=True)], schema
    )


def rows(table: pa.Table) -> list[list[Any]]:
    """The values of each column as text, which NaN and the sign of zero are in; times in UTC."""
    schema = arrow_schema(TYPES)
    return [
        [repr(value) for value in column.cast(one.type).to_pylist()]
        for column, one in zip(table.columns, schema, strict=True)
    ]


def test_spark_s_columns_are_those_of_the_ddl(spark: "SparkSession", table: pa.Table) -> None:
    assert spark.createDataFrame(table).schema == spark.createDataFrame([], ddl(TYPES)).schema


def test_every_extreme_comes_back_from_spark(spark: "SparkSession", table: pa.Table) -> None:
    assert rows(spark.createDataFrame(table).toArrow()) == rows(table)


def test_every_extreme_comes_back_from_a_delta_table(
    spark: "SparkSession", table: pa.Table, tmp_path: Path
) -> None:
    uri = str(tmp_path / "values")
    write_deltalake(uri, table)
    assert rows(DeltaTable(uri).to_pyarrow_table()) == rows(table)
    read = spark.read.format("delta").load(uri)
    assert read.schema == spark.createDataFrame([], ddl(TYPES)).schema
    assert sorted(map(repr, zip(*rows(read.toArrow()), strict=True))) == sorted(
        map(repr, zip(*rows(table), strict=True))
    )
