"""A source's password that Airflow keeps as a connection reaches what its tasks start."""

import json
import os
from pathlib import Path

import pytest
from lockstep.airflow_ops.source_passwords import task_settings
from lockstep.settings import Settings, source_connection, source_password_setting

from tests.pipeline.project_folder import write_pipeline, write_source

SOURCE, PIPELINE = "depot", "readings"
READ, CAPTURE = (source_password_setting(SOURCE, role) for role in ("read", "capture"))


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With a source of a server of one's own; the environment is as before at the end."""
    write_source(tmp_path)
    write_pipeline(tmp_path, PIPELINE)
    monkeypatch.setenv("LOCKSTEP_PROJECT", str(tmp_path))
    monkeypatch.setenv("LOCKSTEP_HOME", str(tmp_path / "home"))
    for name in (READ, CAPTURE):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    return tmp_path


def keep(monkeypatch: pytest.MonkeyPatch, role: str, password: str) -> None:
    """In Airflow, as a connection of the environment, one of the places that it looks in."""
    variable = f"AIRFLOW_CONN_{source_connection(SOURCE, role).upper()}"
    monkeypatch.setenv(variable, json.dumps({"conn_type": "postgres", "password": password}))


def test_a_task_has_the_passwords_of_its_sources_connections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keep(monkeypatch, "read", "kept by Airflow")
    settings = task_settings(PIPELINE)
    assert settings.source_password(SOURCE, "read").password == "kept by Airflow"
    assert os.environ[READ] == "kept by Airflow", "what the task starts inherits it"
    assert settings.find_source_password(SOURCE, "capture") is None


def test_the_environment_and_secrets_env_stay(
    monkeypatch: pytest.MonkeyPatch, project: Path
) -> None:
    for role in ("read", "capture"):
        keep(monkeypatch, role, "kept by Airflow")
    monkeypatch.setenv(READ, "of the environment")
    (project / "home").mkdir()
    (project / "home" / "secrets.env").write_text(f"{CAPTURE}=of secrets.env\n")
    settings = task_settings(PIPELINE)
    assert settings.source_password(SOURCE, "read").password == "of the environment"
    assert settings.source_password(SOURCE, "capture").password == "of secrets.env"


def test_a_database_of_the_embedded_server_has_the_librarys_roles(
    monkeypatch: pytest.MonkeyPatch, project: Path
) -> None:
    write_source(project, text='format_version = 1\nkind = "postgres"\ndatabase = "depot"\n')
    keep(monkeypatch, "read", "kept by Airflow")
    assert isinstance(task_settings(PIPELINE), Settings)
    assert READ not in os.environ
