"""Where the password of a source's role comes from: the environment, a file, secrets.env."""

from pathlib import Path

import pytest
from lockstep.errors import ConfigurationError
from lockstep.settings import SECRETS_FILE, Settings

NAME = "LOCKSTEP_SOURCE_PLANT_READ_PASSWORD"


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name in (NAME, f"{NAME}_FILE"):
        monkeypatch.delenv(name, raising=False)
    return Settings(home=tmp_path)


def test_a_files_new_content_serves_the_next_connection(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "password"
    monkeypatch.setenv(f"{NAME}_FILE", str(file))
    for password in ("first", " and second "):
        file.write_text(f"{password}\n")
        assert settings.source_password("plant", "read").password == password


def test_secrets_env_may_hold_the_password_or_its_file(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("in a file")
    for line, password in (
        (f"{NAME}=itself", "itself"),
        (f"{NAME}_FILE={tmp_path / 'password'}", "in a file"),
    ):
        (tmp_path / SECRETS_FILE).write_text(f"{line}\n")
        assert settings.source_password("plant", "read").password == password


def test_the_environment_is_before_secrets_env(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / SECRETS_FILE).write_text(f"{NAME}=old\n")
    (tmp_path / "password").write_text("new")
    monkeypatch.setenv(f"{NAME}_FILE", str(tmp_path / "password"))
    assert settings.source_password("plant", "read").password == "new"


@pytest.mark.parametrize(
    ("content", "says"),
    [(None, "cannot be read as"), (b"\xff\xfe", "cannot be read as"), (b"\n", "is empty")],
)
def test_a_file_without_a_password_is_named(
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    content: bytes | None,
    says: str,
) -> None:
    file = tmp_path / "password"
    if content is not None:
        file.write_bytes(content)
    monkeypatch.setenv(f"{NAME}_FILE", str(file))
    with pytest.raises(ConfigurationError, match=says) as refused:
        settings.source_password("plant", "read")
    assert f"{NAME}_FILE is {file}" in str(refused.value)


def test_a_relative_path_is_refused_for_a_driver_has_another_folder(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"{NAME}_FILE", "secrets/password")
    with pytest.raises(ConfigurationError, match="no absolute path"):
        settings.source_password("plant", "read")


def test_what_holds_the_password_is_named_with_it(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "password").write_text("new")
    monkeypatch.setenv(f"{NAME}_FILE", str(tmp_path / "password"))
    assert settings.source_password("plant", "read").setting == f"{NAME}_FILE"
    monkeypatch.setenv(NAME, "itself")
    assert settings.source_password("plant", "read").setting == NAME


def test_without_any_both_names_are_said(settings: Settings) -> None:
    with pytest.raises(ConfigurationError, match=f"set {NAME} in the environment, or {NAME}_FILE"):
        settings.source_password("plant", "read")
