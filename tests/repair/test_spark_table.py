"""A repair writes into Spark's table what Spark itself would have written."""

import pytest
from lockstep.model.modes import ReadMode
from lockstep.repair.plan import plan_repair
from lockstep.repair.run import repair_window
from lockstep.settings import Settings
from pizzeria.names import ORDERS_ENRICHED_BATCH
from pyspark.sql import SparkSession

from tests.hourly_table import run_window
from tests.repair.conftest import HOUR, Shop, whole_rows

pytestmark = [pytest.mark.spark, pytest.mark.services]

OF_THE_CUT = ("run_id", "cut_snapshot", "cut_lsn")
LATE = (
    "INSERT INTO orders (table_assignment_id, order_time, pizzas) "
    "VALUES (1, '2024-02-28 12:59:59.999999+00', '{1,1}')"
)


def values(settings: Settings) -> dict[int, dict]:
    return {
        id_: {name: value for name, value in row.items() if name not in OF_THE_CUT}
        for id_, row in whole_rows(settings).items()
    }


def test_what_a_repair_writes_is_what_spark_writes(
    spark: SparkSession, pizzeria: Settings, shop: Shop
) -> None:
    uri = pizzeria.table_uri(ORDERS_ENRICHED_BATCH)
    run_window(spark, pizzeria, HOUR, ReadMode.VIEW)
    schema = spark.read.format("delta").load(uri).schema
    first, second, third, *_ = sorted(whole_rows(pizzeria))
    shop(
        f"UPDATE orders SET pizzas = '{{2,9999,2}}' WHERE id = {first}",
        f"UPDATE orders SET pizzas = '{{}}' WHERE id = {second}",
        f"DELETE FROM orders WHERE id = {third}",
        LATE,
    )

    done = repair_window(pizzeria, HOUR, plan_repair(pizzeria, HOUR).digests, "Ada")

    assert len(done.row_keys) == 4
    repaired = values(pizzeria)
    read = spark.read.format("delta").load(uri)
    assert read.schema == schema
    by_spark = {row.order_id: row.asDict(recursive=True) for row in read.collect()}
    (recorded,) = (
        spark.sql(f"DESCRIBE HISTORY delta.`{uri}` LIMIT 1").select("userMetadata").first()
    )
    assert recorded == done.as_json()
    run_window(spark, pizzeria, HOUR, ReadMode.VIEW)
    assert values(pizzeria) == repaired
    merged_again = {
        row.order_id: row.asDict(recursive=True)
        for row in spark.read.format("delta").load(uri).collect()
    }
    for row in (*by_spark.values(), *merged_again.values()):
        for name in OF_THE_CUT:
            del row[name]
    assert by_spark == merged_again
