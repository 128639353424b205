"""A window is compared with a stream as before, once both sides' dead files are gone."""

from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake
from lockstep.maintain.tables import maintain_tables
from lockstep.parity import comparison
from lockstep.parity.comparison import Compared, OtherModes
from lockstep.parity.sides import Sides
from lockstep.pipeline.modes import Mode
from lockstep.pipeline.names import sql_name
from pyspark.sql import SparkSession

from tests.maintain.aging import age
from tests.parity.history import WINDOW, Shop
from tests.parity.planted_faults import PLAN, Tables

pytestmark = pytest.mark.spark

SEED = 11
MODE = Mode.TEMPORAL


def compared(spark: SparkSession, tables: Tables) -> Compared:
    """The newest versions of both sides."""
    settings = tables.settings
    ready = replace(
        tables.ready(),
        batch_version=DeltaTable(settings.table_uri(PLAN.hourly_table)).version(),
        stream_version=DeltaTable(settings.table_uri(PLAN.change_log(MODE))).version(),
    )
    return comparison.compare(spark, Sides(settings, PLAN, WINDOW, MODE, ready), OtherModes())


def test_a_comparison_after_maintenance_finds_what_it_found_before(
    spark: SparkSession, tmp_path: Path
) -> None:
    tables = Tables(Shop(SEED).evening(120), tmp_path)
    lost = tables.live()[0]
    tables.log.remove(lost)
    before = tables.compare(spark, MODE)
    for table in (PLAN.hourly_table, PLAN.change_log(MODE)):
        uri = tables.settings.table_uri(table)
        write_deltalake(uri, DeltaTable(uri).to_pyarrow_table(), mode="overwrite")
        age(Path(uri), days=10)
    freed = {
        one.what: one.freed_bytes for one in maintain_tables(tables.settings, is_dry_run=False)
    }
    assert freed[sql_name(PLAN.hourly_table)] > 0
    assert freed[sql_name(PLAN.change_log(MODE))] > 0
    assert before.counts["missing_in_stream"] == 1
    assert compared(spark, tables) == before
