"""The tables that both comparisons are measured on differ as they say."""

from pathlib import Path

import pytest
from lockstep.parity import comparison
from lockstep.parity.comparison import OtherModes
from lockstep.parity.sides import Sides
from lockstep.pipeline.plan import plan_named
from lockstep.settings import Settings
from lockstep_tools.bench.parity_tables import MODE, WINDOW, make_tables
from pizzeria.names import MANIFEST
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ORDERS = 3000


def test_the_comparison_finds_what_the_tables_were_made_with(
    spark: SparkSession, tmp_path: Path
) -> None:
    settings = Settings(home=tmp_path)
    made = make_tables(spark, settings, ORDERS)
    plan = plan_named(settings.project, MANIFEST)
    compared = comparison.compare(
        spark, Sides(settings, plan, WINDOW, MODE, made.ready), OtherModes()
    )
    assert compared.rows == ORDERS
    assert compared.counts == made.expected
    assert all(made.expected.values())
