"""The command line of the stack, without any service."""

import json
from pathlib import Path

import pytest
import typer
from lockstep.cli import stack
from lockstep.errors import ServiceError
from lockstep.host.files import bounded_log
from typer.testing import CliRunner


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> typer.Typer:
    monkeypatch.setenv("LOCKSTEP_HOME", str(tmp_path / "home"))
    app = typer.Typer()
    stack.register(app)
    return app


def test_status_of_a_home_that_does_not_exist_is_all_stopped(app: typer.Typer) -> None:
    result = CliRunner().invoke(app, ["status", "--json"])
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert {one["state"] for one in found} == {"stopped"}
    assert [one["service"] for one in found] == [
        "postgres",
        "kafka",
        "connect",
        "metrics",
        "airflow-api-server",
        "airflow-scheduler",
        "airflow-dag-processor",
        "airflow-triggerer",
    ]


def test_the_status_table_shows_whole_addresses(app: typer.Typer) -> None:
    result = CliRunner().invoke(app, ["status"])
    assert "http://127.0.0.1:" in result.stdout
    assert "…" not in result.stdout


def test_down_without_a_home_does_nothing(app: typer.Typer, tmp_path: Path) -> None:
    assert CliRunner().invoke(app, ["down"]).exit_code == 0
    assert not (tmp_path / "home").exists()


def test_logs_shows_the_last_lines(app: typer.Typer, tmp_path: Path) -> None:
    bounded_log(tmp_path / "home", "kafka").write_text("[one]\ntwo\nthree\n")
    assert CliRunner().invoke(app, ["logs", "kafka", "--lines", "2"]).stdout == "two\nthree\n"
    assert CliRunner().invoke(app, ["logs", "kafka"]).stdout == "[one]\ntwo\nthree\n"


@pytest.mark.parametrize(
    ("service", "message"), [("kafka", "never started"), ("kafak", "there are")]
)
def test_logs_of_what_is_not_there_are_an_error(
    app: typer.Typer, service: str, message: str
) -> None:
    result = CliRunner().invoke(app, ["logs", service])
    assert isinstance(result.exception, ServiceError)
    assert message in str(result.exception)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.9, "0 s"), (61, "1 min 1 s"), (3600 * 2 + 420, "2 h 7 min"), (86400 * 4, "4 d 0 h")],
)
def test_durations_have_two_units(seconds: float, text: str) -> None:
    assert stack._duration(seconds) == text
