"""How the command line ends when something expected goes wrong."""

import subprocess
import sys
from pathlib import Path

import pytest


def lockstep(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("lockstep")
    return subprocess.run(
        [str(program), *arguments],
        env={"PATH": "/usr/bin:/bin", "COLUMNS": "100", **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("end", "said"),
    [("2015-01-01T10:00Z", "is not after its start"), ("noon", "is not an ISO 8601 time")],
)
def test_a_wrong_window_is_one_line_and_exit_code_2(end: str, said: str) -> None:
    ended = lockstep("batch", "run", "--start", "2015-01-01T11:00Z", "--end", end)
    assert ended.returncode == 2
    assert ended.stderr.startswith("error: ")
    assert said in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_a_malformed_setting_is_named(tmp_path: Path) -> None:
    ended = lockstep("status", LOCKSTEP_HOME=str(tmp_path), LOCKSTEP_POSTGRES_PORT="many")
    assert ended.returncode == 2
    assert "LOCKSTEP_POSTGRES_PORT" in ended.stderr


def test_airflows_commands_need_a_stack(tmp_path: Path) -> None:
    ended = lockstep("airflow", "version", LOCKSTEP_HOME=str(tmp_path))
    assert ended.returncode == 2
    assert "run `lockstep up`" in ended.stderr
