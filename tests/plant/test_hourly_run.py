"""The hourly run of a pipeline whose names the library does not know: its rows, and what it refuses.

What the rows must be is asked of PostgreSQL, by the same joins.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest
from lockstep.batch.errors import ResultRefusedError
from lockstep.batch.pipeline_preflight import check_ready, window_of
from lockstep.batch.pipeline_run import PipelineRun, run_pipeline
from lockstep.cdc.run_commits import RunCommit
from lockstep.contracts import ReadMode, Window
from lockstep.errors import LakehouseError, PostgresUnavailableError, WindowError
from lockstep.pipeline.errors import CatalogError, PipelineError
from lockstep.pipeline.names import cut_prefix
from lockstep.sources.delta import open_table
from lockstep.sources.errors import SourceValueError
from lockstep.sources.postgres import connect_to
from pyspark.sql import SparkSession

from tests.plant.conftest import PlantProject

pytestmark = [pytest.mark.spark, pytest.mark.services]

SEED = 29
DAY = datetime(2026, 3, 28, tzinfo=UTC)
HOUR = timedelta(hours=1)
WINDOW = Window(DAY + 12 * HOUR, DAY + 13 * HOUR)
FILLED = """
INSERT INTO $site SELECT 'c' || n, 'city ' || n FROM generate_series(1, 3) AS n;
INSERT INTO $schema.$sensor
SELECT gen_random_uuid(), n, 'sensor ' || n, n * 1.125, CASE WHEN n < 9 THEN 'c' || n % 5 END
FROM generate_series(1, 9) AS n;
INSERT INTO $schema.$fact
SELECT gen_random_uuid(), coalesce(s.$id, gen_random_uuid()), n * 7.331,
    timestamptz '2026-03-27 23:00+00' + n * interval '10 min'
FROM generate_series(0, 299) AS n LEFT JOIN $schema.$sensor AS s ON s.$serial = n % 11
"""
"""Three days of readings, ten minutes apart, some of unknown sensors, some sensors of no site."""
EXPECTED = """
SELECT r.$id::text, r.$taken_at, s.$name, w.$city, (r.$value * s.$factor)::numeric(18,6)
FROM $schema.$fact AS r
LEFT JOIN $schema.$sensor AS s ON r.$sensor_id = s.$id
LEFT JOIN public.$site AS w ON s.$site_code = w.$code
WHERE r.$taken_at >= %s AND r.$taken_at < %s
"""


@pytest.fixture
def filled(plant: PlantProject) -> PlantProject:
    plant.execute(FILLED)
    return plant


def run(spark: SparkSession, plant: PlantProject, window: Window | None = WINDOW) -> PipelineRun:
    pipeline = plant.project.pipeline(plant.plant.pipeline)
    return run_pipeline(spark, plant.settings, pipeline, window)


def expected(plant: PlantProject, window: Window = WINDOW) -> list[tuple]:
    with plant.owner() as connection:
        connection.execute("SET TIME ZONE 'UTC'")
        found = connection.execute(plant.plant.sql(EXPECTED), [window.start, window.end])
        return sorted(found.fetchall())


def table_of(plant: PlantProject) -> Any:
    return open_table(plant.settings.table_uri(plant.plan.hourly_table))


def rows_of(plant: PlantProject) -> list[tuple]:
    """The author's columns of every row, in order."""
    table = table_of(plant).to_pyarrow_table()
    columns = [table[name].to_pylist() for name in plant.plan.outputs]
    return sorted(zip(*columns, strict=True))


def test_the_windows_rows_are_those_that_postgresql_gives(
    spark: SparkSession, filled: PlantProject
) -> None:
    done = run(spark, filled)
    wanted = expected(filled)
    assert len(wanted) == 6
    assert rows_of(filled) == wanted
    commit = RunCommit.from_json(table_of(filled).history(1)[0]["userMetadata"])
    assert commit == done.commit
    assert (commit.window, commit.read_mode) == (WINDOW, ReadMode.TABLES)
    assert commit.orders_at_cut == 6


def test_all_days_at_once_are_sliced_and_whole(spark: SparkSession, filled: PlantProject) -> None:
    days = Window(DAY - HOUR * 24, DAY + 72 * HOUR)
    small = filled.settings.model_copy(update={"batch_slice_rows": 20})
    pipeline = filled.project.pipeline(filled.plant.pipeline)
    done = run_pipeline(spark, small, pipeline, days)
    assert rows_of(filled) == expected(filled, days)
    assert done.commit.orders_at_cut == 300
