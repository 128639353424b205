"""A repair of a pipeline with children: it finds what changed in them alone."""

from pathlib import Path

import psycopg
import pytest
from lockstep.batch.run import run_pipeline
from lockstep.model.modes import ReadMode
from lockstep.model.verdict import CheckStatus
from lockstep.model.window import Window
from lockstep.pipeline.plan import plan_of
from lockstep.pipeline.project import read_project
from lockstep.quality import check_window
from lockstep.repair.plan import plan_repair
from lockstep.repair.run import repair_window
from lockstep.settings import Settings
from lockstep.sources.delta import open_table
from pyspark.sql import SparkSession

from tests.depot.writer import PACKED, clerk, rows_of
from tests.project import PROJECT_DIR

pytestmark = [pytest.mark.spark, pytest.mark.services]
WINDOW = Window.parse("2026-03-28T10:00Z", "2026-03-28T12:00Z")
PIPELINE = read_project(PROJECT_DIR).pipeline(PACKED)
PLAN = plan_of(PIPELINE)
COUNT = 12


@pytest.fixture
def packed(depot: Settings, tmp_path: Path) -> Settings:
    return depot.of(PACKED).model_copy(update={"lakehouse": str(tmp_path / "lakehouse")})


def hourly(settings: Settings) -> dict[tuple, tuple]:
    """The rows of the hourly table, and what each was made of last, by key."""
    table = open_table(settings.table_uri(PLAN.hourly_table)).to_pyarrow_table()
    names = [name for name in PLAN.result.columns if name not in PLAN.key]
    return {
        tuple(row[name] for name in PLAN.key): (*(row[name] for name in names), row["origin"])
        for row in table.to_pylist()
    }


def database(connection: psycopg.Connection) -> dict[tuple, tuple]:
    found = rows_of(connection, PACKED)
    return {key: row for key, row in found.items() if WINDOW.start <= row[0] < WINDOW.end}


def test_both_ways_to_read_say_the_same_of_what_a_row_was_made_of(
    packed: Settings, spark: SparkSession
) -> None:
    found = []
    for mode in ReadMode:
        run_pipeline(spark, packed, PIPELINE, WINDOW, mode)
        found.append(hourly(packed))
        assert plan_repair(packed, WINDOW).changed == []
    assert found[0] == found[1]
    assert len({row[-1]["children"] for row in found[0].values()}) == COUNT


def test_a_line_that_is_new_changed_or_gone_is_a_change_of_its_consignment(
    packed: Settings, spark: SparkSession
) -> None:
    run_pipeline(spark, packed, PIPELINE, WINDOW, ReadMode.TABLES)
    with clerk(packed) as connection:
        before = database(connection)
        with_lines = sorted(key for key, row in before.items() if row[2] > 1)
        first, second, third = (key[0] for key in with_lines[:3])
        line = "consignment = %s AND line_no = 1"
        connection.execute(
            "INSERT INTO freight.consignment_lines SELECT consignment, 9, goods_code, 5, 5, "
            f"packed_at FROM freight.consignment_lines WHERE {line}",
            [first],
        )
        connection.execute(
            f"UPDATE freight.consignment_lines SET parcels = parcels + 1 WHERE {line}", [second]
        )
        connection.execute(f"DELETE FROM freight.consignment_lines WHERE {line}", [third])
        connection.execute("UPDATE freight.goods SET goods_label = goods_label || '!'")
        now = database(connection)
    planned = plan_repair(packed, WINDOW)
    changed = {f'["{key}"]': "updated" for key in (first, second, third)}
    assert {one.key: str(one.how) for one in planned.changed} == changed
    assert (planned.others, planned.others_rerun > 0) == (COUNT - 3, True)
    done = repair_window(packed, WINDOW, planned.digests, "a test")
    assert done.orders_after == COUNT
    there = {key: row[:-1] for key, row in hourly(packed).items()}
    assert {key: there[key] for key in with_lines[:3]} == {key: now[key] for key in with_lines[:3]}
    assert all(there[key] == before[key] for key in before.keys() - {*with_lines[:3]})
    assert plan_repair(packed, WINDOW).changed == []
    assert check_window(packed, WINDOW).status is CheckStatus.PASS
