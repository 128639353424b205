"""`lockstep airflow …`: what the command that it becomes is given."""

import os
from pathlib import Path

import pytest
from lockstep.cli import app
from typer.testing import CliRunner


def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment of Airflow's command."""
    seen: dict[str, str] = {}
    monkeypatch.setenv("LOCKSTEP_HOME", str(tmp_path))
    monkeypatch.setattr(
        os, "execve", lambda _program, _arguments, environment: seen.update(environment)
    )
    (tmp_path / "secrets.env").write_text(
        "".join(f"LOCKSTEP_{name}_PASSWORD=x\n" for name in ("AIRFLOW", "AIRFLOW_UI"))
    )
    ended = CliRunner().invoke(app, ["airflow", "dags", "list"])
    assert ended.exit_code == 0, ended.output
    return seen


def test_warnings_that_it_prints_each_time_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONWARNINGS", raising=False)
    assert "ignore:Could not import graphviz" in given(tmp_path, monkeypatch)["PYTHONWARNINGS"]


def test_a_choice_of_one_s_own_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONWARNINGS", "error")
    assert given(tmp_path, monkeypatch)["PYTHONWARNINGS"] == "error"
