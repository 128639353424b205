"""`lockstep source check` and `refresh`: what a source's database lacks, and what changed there."""

import pytest
from lockstep.cli import app
from lockstep.errors import LockstepError
from lockstep.pipeline.errors import PipelineError
from typer.testing import CliRunner, Result

from tests.plant.conftest import PlantProject

pytestmark = pytest.mark.services


@pytest.fixture(autouse=True)
def in_the_project(plant: PlantProject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCKSTEP_PROJECT", str(plant.folder))


def source(*arguments: str) -> Result:
    found = CliRunner().invoke(app, ["source", *arguments])
    assert found.exception is None or isinstance(found.exception, LockstepError | SystemExit)
    return found


def missing(shown: str) -> list[str]:
    return [
        line.removeprefix("missing: ")
        for line in shown.splitlines()
        if line.startswith("missing: ")
    ]


def prepared(plant: PlantProject) -> None:
    """Run each missing statement, as check prints it."""
    for statement in missing(source("check", plant.plant.source).output):
        plant.execute(statement)


def catalog_of(plant: PlantProject) -> str:
    return (plant.folder / "include/sources" / plant.plant.source / "catalog.lock").read_text()


def test_what_is_missing_is_named_with_who_may_run_it_until_nothing_is(
    plant: PlantProject,
) -> None:
    names = plant.plant
    plant.execute("REVOKE SELECT ON $schema.$fact FROM $reader")
    before = source("check", names.source)
    assert before.exit_code == 1
    granted, published = missing(before.output)
    assert granted.startswith(f'GRANT SELECT ON "{names.schema}"."{names.fact}" TO')
    assert granted.endswith("-- the tables' owner")
    assert published.startswith("CREATE PUBLICATION")
    assert published.endswith("-- the tables' owner, with CREATE on the database")
    prepared(plant)
    after = source("check", names.source)
    assert (after.exit_code, missing(after.output)) == (0, [])
    assert "nothing is missing, and its catalog is as its tables are" in after.output


def test_what_changed_is_named_with_the_pipelines_that_read_it_and_refresh_writes_it(
    plant: PlantProject,
) -> None:
    names, locked = plant.plant, catalog_of(plant)
    names.write_second(plant.folder)
    prepared(plant)
    plant.execute(
        "ALTER TABLE $schema.$sensor DROP COLUMN $factor, ADD COLUMN tint text;"
        "ALTER TABLE $schema.$fact ADD COLUMN note text"
    )
    shown = source("check", names.source)
    assert shown.exit_code == 1
    lines = shown.output.splitlines()
    factor = f"{names.schema}.{names.sensor}.{names.factor}"
    assert f"changed: column {factor} is gone (numeric(6,3))" in lines
    concerned = [line for line in lines if line.startswith("pipeline ")]
    assert concerned == [
        f"pipeline {names.pipeline} reads {factor}: see `lockstep pipeline check {names.pipeline}`"
    ], "the second pipeline reads nothing that changed, and new columns concern none"
    assert catalog_of(plant) == locked, "check writes nothing"
    refreshed = source("refresh", names.source)
    assert (refreshed.exit_code, concerned[0] in refreshed.output) == (0, True)
    assert '"note"' in catalog_of(plant)
    assert source("check", names.source).exit_code == 0
    assert "nothing has changed in its tables" in source("refresh", names.source).output


def test_a_key_of_other_columns_concerns_all_that_read_the_table(plant: PlantProject) -> None:
    names = plant.plant
    names.write_second(plant.folder)
    plant.execute(
        "ALTER TABLE $schema.$fact DROP CONSTRAINT ${fact}_pkey, ADD PRIMARY KEY ($id, $taken_at)"
    )
    shown = source("refresh", names.source).output
    fact = f"{names.schema}.{names.fact}"
    for pipeline in (names.pipeline, names.second):
        assert f"pipeline {pipeline} reads {fact}: see" in shown


@pytest.mark.parametrize("command", ["check", "refresh"])
def test_a_source_that_is_not_there_is_said(command: str) -> None:
    ended = source(command, "nowhere")
    assert isinstance(ended.exception, PipelineError)
    assert "`lockstep source add nowhere postgres://…` adds it" in str(ended.exception)
