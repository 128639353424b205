"""Removing a source: no slot is left that would keep the database's log for ever."""

import shutil

import pytest
from lockstep.capture.connector import first_tables, topic_is_there
from lockstep.capture.connectors import of_source
from lockstep.cli import app
from lockstep.pipeline.errors import PipelineError
from lockstep.pipeline.project_files import PIPELINES, SOURCES
from typer.testing import CliRunner, Result

from tests.plant.conftest import PlantProject

pytestmark = pytest.mark.services


def test_connector_slot_topic_and_folder_go_when_no_pipeline_reads_the_source(
    captured_plant: PlantProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant, source, settings = captured_plant.plant, captured_plant.source, captured_plant.settings
    monkeypatch.setenv("LOCKSTEP_PROJECT", str(captured_plant.folder))
    monkeypatch.setenv("LOCKSTEP_LAKEHOUSE", settings.lakehouse_uri)

    def rm(*options: str) -> Result:
        return CliRunner().invoke(app, ["source", "rm", plant.source, *options])

    def slots() -> int:
        with captured_plant.owner() as owner:
            query = "SELECT count(*) FROM pg_replication_slots WHERE slot_name = %s"
            return owner.execute(query, (source.slot,)).fetchone()[0]

    refused = rm("--yes").exception
    assert isinstance(refused, PipelineError)
    assert f"is read by {plant.pipeline}" in str(refused)
    shutil.rmtree(captured_plant.folder / PIPELINES / plant.pipeline)
    shown = rm().stdout
    assert f"slot {source.slot}, which keeps" in shown
    assert "nothing was changed" in shown
    assert slots() == 1
    done = rm("--yes")
    assert done.exit_code == 0, done.exception
    assert slots() == 0
    connector = of_source(settings, source, ())
    assert first_tables(settings, connector) is None
    assert not topic_is_there(settings, connector)
    assert not (captured_plant.folder / SOURCES / plant.source).exists()
