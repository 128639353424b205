"""`lockstep pipeline new`: the folder of a pipeline, of a view in a real database."""

from pathlib import Path

import pytest
from lockstep.pipeline.errors import CatalogError, PipelineError, QueryRefusedError
from lockstep.pipeline.plan import plan_named
from lockstep.pipeline.project_files import PIPELINES
from lockstep.sources.new_pipeline import new_pipeline
from typer.testing import CliRunner

from tests.plant.conftest import PlantProject

pytestmark = pytest.mark.services

VIEW = """
ALTER TABLE $schema.$fact ADD FOREIGN KEY ($sensor_id) REFERENCES $schema.$sensor;
CREATE VIEW $schema.seen AS
SELECT r.$id AS $reading_id, r.$taken_at AS $measured_at, s.$name, coalesce(w.$city, '?') AS $city,
    r.$value * s.$factor AS $amount
FROM $schema.$fact AS r
INNER JOIN $schema.$sensor AS s ON r.$sensor_id = s.$id
LEFT JOIN public.$site AS w ON s.$site_code = w.$code;
"""


def folders(plant: PlantProject) -> set[str]:
    return {one.name for one in (plant.folder / PIPELINES).iterdir()}


def test_a_pipeline_of_a_view_can_be_planned_as_it_is(plant: PlantProject) -> None:
    plant.execute(VIEW)
    names = plant.plant
    folder, made = new_pipeline(plant.settings, "fresh", names.source, f"{names.schema}.seen")
    assert (folder, made.refused) == (Path("include/sql/fresh"), None)
    plan = plan_named(plant.folder, "fresh")
    assert plan.fact.name.name == names.fact
    assert (plan.key, plan.time) == ((names.reading_id,), names.measured_at)
    columns = (names.reading_id, names.measured_at, names.name, names.city, names.amount)
    assert plan.outputs == columns
    assert plan.manifest.modes == ("lookup", "temporal", "transaction")
    assert str(plan.manifest.view) == f"{names.schema}.seen"
    assert len(plan.tables) == 3


def test_what_cannot_be_used_is_written_and_said_with_its_line(
    plant: PlantProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lockstep.cli import app

    monkeypatch.setenv("LOCKSTEP_PROJECT", str(plant.folder))
    monkeypatch.setenv("LOCKSTEP_HOME", str(plant.settings.home))
    plant.execute("CREATE VIEW $schema.aged AS SELECT r.$id, now() AS seen FROM $schema.$fact r")
    names = plant.plant
    asked = ["pipeline", "new", "aged", "--source", names.source, "--view", f"{names.schema}.aged"]
    ended = CliRunner().invoke(app, asked)
    assert "include/sql/aged is written" in ended.output
    assert isinstance(ended.exception, QueryRefusedError)
    query = (plant.folder / PIPELINES / "aged" / "query.sql").read_text().splitlines()
    assert query[ended.exception.position.line - 1].startswith("-- TO CORRECT: current_timestamp")


def test_what_is_wrong_is_said_and_writes_nothing(plant: PlantProject) -> None:
    names, before = plant.plant, folders(plant)
    for name, source, view, why in (
        (names.pipeline, names.source, "a.b", "is there already"),
        (names.source, names.source, "a.b", "is the name of a source"),
        ("fresh", names.source, f"{names.schema}.gone", "has no view"),
        ("fresh", names.source, "a.b.c", "the view a.b.c"),
        ("fresh", "nowhere", "a.b", "there is no source nowhere"),
        ("Fresh", names.source, "a.b", "the pipeline's name"),
    ):
        with pytest.raises(PipelineError, match=why):
            new_pipeline(plant.settings, name, source, view)
    assert folders(plant) == before


def test_a_full_disk_leaves_no_folder(plant: PlantProject, monkeypatch: pytest.MonkeyPatch) -> None:
    plant.execute(VIEW)
    before = folders(plant)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(Exception, match="No space left on device"):
        new_pipeline(plant.settings, "fresh", plant.plant.source, f"{plant.plant.schema}.seen")
    monkeypatch.undo()
    assert folders(plant) == before


def test_a_role_without_rights_may_ask(plant: PlantProject) -> None:
    plant.execute(VIEW + "REVOKE ALL ON ALL TABLES IN SCHEMA $schema FROM $reader")
    names = plant.plant
    _, made = new_pipeline(plant.settings, "fresh", names.source, f"{names.schema}.seen")
    assert made.refused is None
    [grant] = made.grants
    assert grant.startswith("GRANT SELECT ON ")
    plant.execute(grant)
    _, again = new_pipeline(plant.settings, "again", names.source, f"{names.schema}.seen")
    assert again.grants == ()
    with pytest.raises(CatalogError):
        new_pipeline(plant.settings, "other", names.source, f"{names.schema}.nothing")
