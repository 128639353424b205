"""A new project: what is in its folder, and that it is made whole or not at all."""

import json
import os
import shutil
import subprocess
from importlib.metadata import Distribution
from pathlib import Path

import pytest
from lockstep.airflow_ops.dags.project import make_dags
from lockstep.capture.connectors import embedded_connectors
from lockstep.errors import ConfigurationError
from lockstep.new_project import create
from lockstep.new_project.create import FILES, create_project, requirement
from lockstep.pipeline.project import read_project
from lockstep.project import MARKER
from lockstep.settings import Settings
from typer.testing import CliRunner

from tests.project import PROJECT_DIR
from tests.test_requirements import pins, version_of

OWN = ("dags", "jobs", "plugins")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "deep" / "project"
    create_project(folder)
    return folder


@pytest.mark.parametrize("folder", OWN)
def test_its_airflow_and_jobs_start_from_what_this_repository_starts_from(folder: str) -> None:
    def held(place: Path) -> dict[str, str]:
        return {file.name: file.read_text() for file in (place / folder).glob("*.py")}

    assert held(FILES) == held(PROJECT_DIR)


def test_its_packages_are_held_at_the_versions_that_are_proven_together() -> None:
    lines = (FILES / "constraints.txt").read_text().splitlines()
    held = {line.split("==")[0]: line.split()[0].split("==")[1] for line in lines}
    assert held == {name: version_of(pin) for name, pin in pins("requirements").items()}


def test_it_is_a_project_without_a_pipeline(project: Path) -> None:
    assert (project / MARKER).is_dir()
    found = read_project(project)
    assert (found.sources, found.pipelines) == ({}, {})
    settings = Settings(project=project, home=project / "home")
    assert make_dags(settings) == []
    assert embedded_connectors(settings) == []
    assert {".env.example", ".gitignore"} <= {file.name for file in project.iterdir()}
    assert not list(project.parent.glob(".project*")), "nothing is left next to it"


def test_a_pipeline_put_there_has_its_dags(project: Path) -> None:
    for folder in ("include/sql/orders_enriched", "include/sources/pizzeria"):
        shutil.copytree(PROJECT_DIR / folder, project / folder)
    ids = {dag.dag_id for dag in make_dags(Settings(project=project, home=project / "home"))}
    assert {"orders_enriched__batch", "orders_enriched__temporal"} <= ids


def test_make_lists_its_targets_and_reads_dot_env(project: Path) -> None:
    def make(*goals: str) -> str:
        # These tests may themselves be started by make, which then names the folder it is in.
        command = [shutil.which("make"), "--no-print-directory", *goals]
        return subprocess.run(
            command, cwd=project, capture_output=True, text=True, check=True
        ).stdout

    (project / ".env").write_text("LOCKSTEP_HOME=/of/dot/env\n")
    assert [line.split()[1] for line in make().splitlines()] == [
        *("help", "setup", "up", "down", "check")
    ]
    (project / ".venv" / "bin").mkdir(parents=True)
    (project / ".venv" / "bin" / "lockstep").write_text('#!/bin/sh\necho "$1 of $LOCKSTEP_HOME"\n')
    (project / ".venv" / "bin" / "lockstep").chmod(0o755)
    assert make("down") == "down of /of/dot/env\n"


@pytest.mark.parametrize("there", ["file", "folder with a file"])
def test_what_is_there_already_is_left_alone(tmp_path: Path, there: str) -> None:
    from lockstep.cli import app

    folder = tmp_path / "mine"
    held = folder if there == "file" else folder / "notes.txt"
    held.parent.mkdir(exist_ok=True)
    held.write_text("of before")
    ended = CliRunner().invoke(app, ["init", str(folder)])
    assert isinstance(ended.exception, ConfigurationError)
    assert "is not empty: name a new folder" in str(ended.exception)
    assert held.read_text() == "of before"
    assert os.listdir(tmp_path) == ["mine"]


def test_an_empty_folder_becomes_one(tmp_path: Path) -> None:
    create_project(tmp_path)
    assert (tmp_path / MARKER).is_dir()


def test_a_failure_half_way_leaves_nothing(tmp_path: Path, monkeypatch) -> None:
    def fail(_installed: Distribution) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(create, "requirement", fail)
    with pytest.raises(ConfigurationError, match="No space left on device"):
        create_project(tmp_path / "mine")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("came_from", "wanted"),
    [
        (None, "lockstep[devstack]==1.2"),
        (
            {"url": "file:///wheels/lockstep-1.2-py3-none-any.whl", "archive_info": {}},
            "lockstep[devstack] @ file:///wheels/lockstep-1.2-py3-none-any.whl",
        ),
    ],
)
def test_it_asks_for_the_library_that_made_it(tmp_path: Path, came_from, wanted: str) -> None:
    metadata = tmp_path / "lockstep-1.2.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: lockstep\nVersion: 1.2\n")
    if came_from:
        (metadata / "direct_url.json").write_text(json.dumps(came_from))
    assert requirement(Distribution.at(metadata)) == wanted
