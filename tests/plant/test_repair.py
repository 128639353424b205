"""A folder's pipeline from its hourly run to the published table: checked, repaired, published."""

import pytest
from deltalake import DeltaTable
from lockstep.batch.run import run_pipeline
from lockstep.cdc.cuts import XID_SPAN
from lockstep.model.modes import ReadMode
from lockstep.model.verdict import CheckStatus
from lockstep.pipeline.errors import PipelineError
from lockstep.publish.step import step
from lockstep.quality import check_window
from lockstep.repair.plan import plan_repair
from lockstep.repair.run import repair_window
from lockstep.settings import Settings
from pyspark.sql import SparkSession

from tests.plant.conftest import PlantProject
from tests.plant.test_hourly_run import FILLED, WINDOW, expected, rows_of, table_of
from tests.plant.test_published import VIEW, declared

pytestmark = [pytest.mark.spark, pytest.mark.services]

IN_WINDOW = "$taken_at >= '2026-03-28 12:00Z' AND $taken_at < '2026-03-28 13:00Z'"


@pytest.fixture
def filled(plant: PlantProject) -> PlantProject:
    declared(plant)
    plant.execute(VIEW + FILLED)
    return plant


def settings_of(plant: PlantProject) -> Settings:
    return plant.settings.of(plant.plant.pipeline)


def run(spark: SparkSession, plant: PlantProject, mode: ReadMode) -> None:
    pipeline = plant.project.pipeline(plant.plant.pipeline)
    run_pipeline(spark, plant.settings, pipeline, WINDOW, mode)


def origins(plant: PlantProject) -> dict[str, int]:
    """The transaction of each row's fact, 32 bits, by key."""
    table = table_of(plant).to_pyarrow_table()
    keys = table[plant.plan.key[0]].to_pylist()
    return {
        key: origin["tx_id"] % XID_SPAN
        for key, origin in zip(keys, table["origin"].to_pylist(), strict=True)
    }


def transactions(plant: PlantProject) -> dict[str, int]:
    """The same, as PostgreSQL has it."""
    query = f"SELECT $id::text, xmin::text::bigint FROM $schema.$fact WHERE {IN_WINDOW}"
    with plant.owner() as owner:
        return dict(owner.execute(plant.plant.sql(query)).fetchall())


@pytest.mark.parametrize("mode", ReadMode)
def test_each_row_of_a_run_says_which_row_of_the_fact_it_was_made_of(
    spark: SparkSession, filled: PlantProject, mode: ReadMode
) -> None:
    filled.execute(f"UPDATE $schema.$fact SET $value = 1 WHERE {IN_WINDOW} AND $value > 590")
    run(spark, filled, mode)
    assert origins(filled) == transactions(filled)
    assert len(set(origins(filled).values())) == 2


def test_the_rows_that_changed_are_repaired_checked_and_published(
    spark: SparkSession, filled: PlantProject
) -> None:
    settings, keys = settings_of(filled), sorted(transactions(filled))
    run(spark, filled, ReadMode.VIEW)
    assert check_window(settings, WINDOW).status is CheckStatus.PASS
    assert step(settings, filled.plan).has_published
    filled.execute("UPDATE $schema.$fact SET $value = 3 WHERE $id = %s", (keys[0],))
    filled.execute("DELETE FROM $schema.$fact WHERE $id = %s", (keys[1],))
    new = "INSERT INTO $schema.$fact SELECT gen_random_uuid(), $sensor_id, 5, $taken_at FROM "
    filled.execute(f"{new} $schema.$fact WHERE $id = %s", (keys[2],))
    filled.execute("UPDATE $schema.$sensor SET $name = 'renamed'")
    planned = plan_repair(settings, WINDOW)
    how = {one.key: str(one.how) for one in planned.changed}
    assert sorted(how.values()) == ["cancelled", "new", "updated"]
    assert how[f'["{keys[0]}"]'] == "updated"
    assert how[f'["{keys[1]}"]'] == "cancelled"
    assert planned.others == 4
    assert planned.others_rerun > 0, "what was renamed is not repaired, and said"
    done = repair_window(settings, WINDOW, planned.digests, "a test")
    assert done.orders_after == 6
    assert origins(filled) == transactions(filled)
    now, there = ({row[0]: row for row in rows} for rows in (expected(filled), rows_of(filled)))
    repaired = [key for key in now if key not in keys or key == keys[0]]
    assert len(repaired) == 2
    assert {key: there[key] for key in repaired} == {key: now[key] for key in repaired}
    assert there.keys() == now.keys()
    assert plan_repair(settings, WINDOW).changed == []
    assert check_window(settings, WINDOW).status is CheckStatus.PASS
    assert step(settings, filled.plan).has_published
    published = DeltaTable(settings.table_uri(settings.names.published_table)).to_pyarrow_table()
    columns = [published[name].to_pylist() for name in filled.plan.outputs]
    assert sorted(zip(*columns, strict=True)) == rows_of(filled)


def test_without_a_view_a_repair_is_refused_and_says_what_is_missing(
    spark: SparkSession, plant: PlantProject
) -> None:
    plant.execute(FILLED)
    run(spark, plant, ReadMode.TABLES)
    key = sorted(transactions(plant))[0]
    plant.execute("UPDATE $schema.$fact SET $value = 3 WHERE $id = %s", (key,))
    with pytest.raises(PipelineError, match="has no view to read"):
        plan_repair(settings_of(plant), WINDOW)
