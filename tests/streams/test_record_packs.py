"""Records go to Python many in a row: all of them, in their order."""

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import DataFrame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def packs(spark: "SparkSession", records: DataFrame, most: int) -> list[tuple]:
    packed = spark._jvm.lockstep.RecordPacks.of(records._jdf, most)
    return [tuple(row) for row in DataFrame(packed, spark).collect()]


def test_records_are_packed_in_their_order_none_left_out(spark: "SparkSession") -> None:
    values = [None if offset == 2 else b"record %d" % offset for offset in range(5)]
    records = spark.createDataFrame(list(enumerate(values)), "offset bigint, value binary")
    assert packs(spark, records.coalesce(1), 2) == [
        (0, [0, 1], values[:2]),
        (0, [2, 3], values[2:4]),
        (0, [4], values[4:]),
    ]


def test_no_records_are_no_pack(spark: "SparkSession") -> None:
    assert packs(spark, spark.createDataFrame([], "offset bigint, value binary"), 2) == []
