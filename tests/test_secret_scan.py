"""The search for passwords finds what is planted, so that finding nothing says something."""

import subprocess
import sys
from pathlib import Path

import pytest
from lockstep.devstack.secrets import with_secrets
from lockstep.settings import Settings, source_password_setting
from pizzeria.names import SOURCE, Login

from tests.secret_scan import leaks, passwords_of

SHOP = source_password_setting(SOURCE, Login.SHOP)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return with_secrets(Settings(home=tmp_path / "home", connect_port=9))


def canary(settings: Settings) -> str:
    return passwords_of(settings)[SHOP].decode()


def test_a_home_with_its_private_files_alone_leaks_nothing(settings: Settings) -> None:
    assert leaks(settings) == []


@pytest.mark.parametrize("path", ["logs/connect.log", "airflow/logs/dag/task/1.log", "events/app"])
def test_a_password_in_any_file_is_found(settings: Settings, path: str) -> None:
    file = settings.home / path
    file.parent.mkdir(parents=True)
    file.write_text(f"connecting with {canary(settings)}\n")
    assert leaks(settings) == [f"{file}: {SHOP}"]


def test_a_password_in_a_process_s_arguments_is_found(settings: Settings) -> None:
    program = "import sys; print('up', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", program, f"--password={canary(settings)}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        found = leaks(settings)
        process.stdin.close()
    assert found == [f"arguments of process {process.pid}: {SHOP}"]


def test_a_private_file_that_others_may_read_is_found(settings: Settings) -> None:
    settings.secrets_path.chmod(0o644)
    assert leaks(settings) == [f"{settings.secrets_path} is not its owner's alone"]
