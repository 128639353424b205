"""Where the project's folder is, and what a process outside of one is advised to do."""

from pathlib import Path

import pytest
from lockstep.errors import ConfigurationError
from lockstep.project import MARKER, VARIABLE, project_dir, read_project_file
from lockstep.settings import Settings


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is a project, and a process that is in it and has no variable."""
    folder = tmp_path / "a project"
    (folder / MARKER).mkdir(parents=True)
    monkeypatch.delenv(VARIABLE)
    monkeypatch.chdir(folder)
    return folder


def test_the_working_folder_is_the_project(project: Path) -> None:
    assert project_dir() == project


def test_a_folder_above_is_the_project(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = project / "dags" / "more"
    inside.mkdir(parents=True)
    monkeypatch.chdir(inside)
    assert project_dir() == project


def test_the_variable_comes_first(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    (other / MARKER).mkdir(parents=True)
    monkeypatch.setenv(VARIABLE, str(other))
    assert project_dir() == other


def test_a_variable_that_names_no_project_is_an_error(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with pytest.raises(ConfigurationError, match=f"{VARIABLE} is {tmp_path}"):
        project_dir()


def test_outside_of_any_project_it_says_what_to_do(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.parent)
    with pytest.raises(ConfigurationError, match=f"set {VARIABLE}"):
        project_dir()


def test_settings_take_their_folders_from_the_project(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LOCKSTEP_HOME", "LOCKSTEP_JARS_DIR"):
        monkeypatch.delenv(name, raising=False)
    settings = Settings.load()
    assert (settings.project, settings.home) == (project, project / ".lockstep")
    assert settings.jars_dir == project / ".jars"


def test_a_file_that_is_missing_is_named(project: Path) -> None:
    missing = MARKER / "orders" / "query.sql"
    with pytest.raises(ConfigurationError, match=f"{project / missing} is missing"):
        read_project_file(missing)
