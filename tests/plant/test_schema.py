"""What Spark's analysis says of a pipeline's result, and what it refuses."""

import pytest
from lockstep.enrich.plans import result_schema
from lockstep.pipeline.errors import QueryRefusedError
from pyspark.sql import SparkSession

from tests.plant.conftest import PlantProject

pytestmark = [pytest.mark.spark, pytest.mark.services]


def test_the_result_has_the_types_of_sparks_analysis(
    spark: SparkSession, plant: PlantProject
) -> None:
    found = [one.simpleString() for one in result_schema(spark, plant.plan)]
    assert found == [
        f"{plant.plant.reading_id}:string",
        f"{plant.plant.measured_at}:timestamp",
        f"{plant.plant.sensor_name}:string",
        f"{plant.plant.city}:string",
        f"{plant.plant.amount}:decimal(18,6)",
    ]


def test_what_spark_refuses_is_named_at_its_place_in_the_query(
    spark: SparkSession, plant: PlantProject
) -> None:
    query = plant.folder / "include" / "sql" / plant.plant.pipeline / "query.sql"
    text = (
        query.read_text()
        .replace("decimal(18, 6)", "decimal(18, 6)")
        .replace(f"r.{plant.plant.value} *", f"array(r.{plant.plant.value}) *")
    )
    query.write_text(text)
    with pytest.raises(QueryRefusedError, match=r"query\.sql:7:") as refused:
        result_schema(spark, plant.plan)
    assert "Spark refuses it" in str(refused.value)
