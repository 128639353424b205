"""What a pipeline's plan takes from its folder, and what it refuses."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from lockstep.pipeline.catalog import Column, Table
from lockstep.pipeline.errors import PipelineError, TypeRefusedError
from lockstep.pipeline.plan import captured_tables, plans_of
from lockstep.pipeline.project import read_project

from tests.plant.planned import FACT, NAMES, SENSOR, SITE, planned


def test_a_plan_has_the_tables_that_the_query_reads_with_their_keys(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    assert [str(name) for name in plan.tables] == [
        f"{NAMES.schema}.{NAMES.fact}",
        f"{NAMES.schema}.{NAMES.sensor}",
        f"public.{NAMES.site}",
    ]
    assert plan.fact.columns == (NAMES.id, NAMES.sensor_id, NAMES.value, NAMES.taken_at)
    sensor = plan.tables[SENSOR.name]
    assert sensor.columns == (NAMES.id, NAMES.name, NAMES.factor, NAMES.site_code)
    assert plan.key == (NAMES.reading_id,)
    assert plan.time == NAMES.measured_at
    assert plan.hourly_table == f"{NAMES.pipeline}/{NAMES.pipeline}__batch"
    assert plan.history == f"{NAMES.source}/{NAMES.source}__history"


def test_the_key_of_a_row_has_its_text(tmp_path: Path) -> None:
    fact = planned(tmp_path).fact
    id_ = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
    assert fact.key_of((id_, "s", None, None)) == (id_,)
    assert fact.key_text((id_,)) == f'["{id_}"]'


def test_a_source_captures_all_columns_that_any_of_its_pipelines_reads(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    other = planned(
        tmp_path,
        query="SELECT r.$id AS $reading_id, r.$taken_at AS $measured_at, s.$serial "
        "FROM $schema.$fact AS r "
        "LEFT JOIN $schema.$sensor AS s ON r.$sensor_id = s.$id",
    )
    catalog = read_project(tmp_path).sources[NAMES.source].catalog
    both = captured_tables([plan, other], catalog)
    assert both[SENSOR.name].columns == tuple(column.name for column in SENSOR.columns)
    assert both[FACT.name].columns == plan.fact.columns


@pytest.mark.parametrize(
    ("table", "changed", "message"),
    [
        (SITE, replace(SITE, key=()), f"table public.{NAMES.site} has no primary key"),
        (
            SENSOR,
            replace(
                SENSOR,
                key=(NAMES.factor,),
                columns=(
                    *SENSOR.columns[:3],
                    Column(NAMES.factor, "double precision", False),
                    SENSOR.columns[4],
                ),
            ),
            f"the primary key's column {NAMES.factor} is of type double precision",
        ),
        (
            FACT,
            replace(FACT, key=(NAMES.id, NAMES.sensor_id)),
            f"no column of `key` is a copy of {NAMES.schema}.{NAMES.fact}.{NAMES.sensor_id}",
        ),
    ],
    ids=["no primary key", "a key of floats", "a part of the fact's key is not in the result"],
)
def test_a_catalog_that_cannot_be_followed_is_refused(
    tmp_path: Path, table: Table, changed: Table, message: str
) -> None:
    tables = [changed if one is table else one for one in (FACT, SENSOR, SITE)]
    with pytest.raises(PipelineError, match=message):
        planned(tmp_path, *tables)


def test_a_column_of_a_refused_type_is_named_with_its_place_in_the_query(tmp_path: Path) -> None:
    refused = (
        replace(one, type="numeric") if one.name == NAMES.factor else one for one in SENSOR.columns
    )
    place = r"query\.sql:\d+:\d+: table .*: type numeric is refused"
    with pytest.raises(TypeRefusedError, match=place):
        planned(tmp_path, FACT, replace(SENSOR, columns=tuple(refused)), SITE)


def test_a_key_that_is_computed_is_refused(tmp_path: Path) -> None:
    query = (
        "SELECT lower(r.$id) AS $reading_id, r.$taken_at AS $measured_at FROM $schema.$fact AS r"
    )
    with pytest.raises(PipelineError, match="no column of `key` is a copy of"):
        planned(tmp_path, query=query)


def test_a_time_that_the_query_does_not_give_is_refused(tmp_path: Path) -> None:
    query = "SELECT r.$id AS $reading_id FROM $schema.$fact AS r"
    with pytest.raises(PipelineError, match=f"`time` is {NAMES.measured_at}, which the query does"):
        planned(tmp_path, query=query)


def test_a_pipeline_that_cannot_be_planned_takes_no_other_along(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    folder = tmp_path / "include" / "sql"
    shutil.copytree(folder / NAMES.pipeline, folder / "broken")
    (folder / "broken" / "query.sql").write_text("SELECT 1 AS nothing FROM nowhere")
    found = plans_of(read_project(tmp_path), NAMES.source)
    assert [one.name for one in found] == [plan.name]
