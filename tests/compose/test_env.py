"""Passwords of docker-compose.yml: env.example asks for them, make_env.sh makes them."""

import re
import shutil
import subprocess
from pathlib import Path

from tests.compose.passwords import PASSWORDS
from tests.project import PROJECT_DIR

DEPLOY = PROJECT_DIR / "deploy"
ENV_EXAMPLE = DEPLOY / "env.example"


def test_the_example_asks_for_every_password_and_gives_none() -> None:
    lines = ENV_EXAMPLE.read_text(encoding="utf-8").splitlines()
    given = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    assert given == dict.fromkeys(PASSWORDS, "")


def make_env(project_folder: Path) -> subprocess.CompletedProcess[str]:
    script = project_folder / "deploy" / "make_env.sh"
    command = [shutil.which("sh"), str(script)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_make_env_fills_in_every_password_for_its_owner_alone(tmp_path: Path) -> None:
    shutil.copytree(DEPLOY, tmp_path / "deploy")
    done = make_env(tmp_path)
    assert done.returncode == 0, done.stderr
    written = tmp_path / ".env"
    lines = written.read_text(encoding="utf-8").splitlines()
    given = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    assert given.keys() == PASSWORDS
    assert len(set(given.values())) == len(PASSWORDS)
    assert all(re.fullmatch(r"[0-9a-f]{32}", value) for value in given.values())
    assert written.stat().st_mode & 0o777 == 0o600
    assert not any(value in done.stdout for value in given.values())


def test_make_env_never_replaces_passwords_in_use(tmp_path: Path) -> None:
    shutil.copytree(DEPLOY, tmp_path / "deploy")
    (tmp_path / ".env").write_text("in use")
    assert make_env(tmp_path).returncode == 2
    assert (tmp_path / ".env").read_text() == "in use"
