"""Private files are private from their first moment; logs are bounded at each start."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from lockstep.devstack.secrets import with_secrets
from lockstep.host import files
from lockstep.settings import Settings, source_password_setting
from pizzeria.names import SOURCE, Login

SHOP = source_password_setting(SOURCE, Login.SHOP)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Of a home that does not exist yet, whatever the environment says."""
    for name in [name for name in os.environ if name.startswith("LOCKSTEP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("LOCKSTEP_HOME", str(tmp_path / "home"))
    return Settings.load()


def test_every_password_is_generated_into_a_file_of_the_owner_alone(settings: Settings) -> None:
    complete = with_secrets(settings)
    names = [name for name in Settings.model_fields if name.endswith("_password")]
    passwords = [getattr(complete, name).get_secret_value() for name in names]
    assert len(set(passwords)) == len(names) >= 7
    assert mode(settings.home) == 0o700
    assert mode(settings.secrets_path) == 0o600
    assert Settings.load() == complete


def test_passwords_that_are_there_are_never_rewritten(settings: Settings) -> None:
    first = with_secrets(settings)
    before = settings.secrets_path.stat()
    assert with_secrets(Settings.load()) == first
    assert settings.secrets_path.stat() == before


def test_a_missing_password_is_added_and_the_others_stay(settings: Settings) -> None:
    first = with_secrets(settings)
    shop = first.source_password(SOURCE, Login.SHOP)
    lines = settings.secrets_path.read_text().splitlines()
    kept = [line for line in lines if "SHOP" not in line and "AIRFLOW_PASSWORD" not in line]
    settings.secrets_path.write_text("\n".join(kept))  # no end of line: the next must not join it
    second = with_secrets(Settings.load())
    assert second.airflow_password != first.airflow_password
    assert second.source_password(SOURCE, Login.SHOP) != shop
    assert second.cdc_password == first.cdc_password
    assert Settings.load() == second


def test_a_file_written_by_hand_is_closed_to_others(settings: Settings) -> None:
    with_secrets(settings)
    settings.secrets_path.chmod(0o644)
    with_secrets(Settings.load())
    assert mode(settings.secrets_path) == 0o600


def test_a_password_from_the_environment_is_not_stored(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCKSTEP_CDC_PASSWORD", "given from outside")
    monkeypatch.setenv(SHOP, "of the shop")
    complete = with_secrets(Settings.load())
    assert complete.cdc_password.get_secret_value() == "given from outside"
    assert complete.source_password(SOURCE, Login.SHOP).password == "of the shop"
    stored = settings.secrets_path.read_text()
    assert "CDC" not in stored
    assert "SHOP" not in stored


def test_of_several_writers_at_once_the_first_wins(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: files.write_private_once(path, str(i)), range(8)))
        first = path.read_text()
        list(pool.map(lambda i: files.write_private_once(path, str(i)), range(8, 16)))
    assert path.read_text() == first
    assert mode(path) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_log_that_has_grown_too_large_is_put_aside_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LOG_BYTES_MAX", 10)
    log = files.bounded_log(tmp_path, "kafka")
    log.write_text("0123456789")
    assert files.bounded_log(tmp_path, "kafka").read_text() == "0123456789"
    log.write_text("0123456789x")
    assert files.bounded_log(tmp_path, "kafka").read_text() == ""
    assert (tmp_path / "logs" / "kafka.log.1").read_text() == "0123456789x"


def test_the_last_lines_of_a_log_and_of_none(tmp_path: Path) -> None:
    log = tmp_path / "some.log"
    assert files.last_lines(log, 3) == []
    log.write_bytes(b"one\ntwo \xff\nthree\nfour")
    assert files.last_lines(log, 3) == ["two �", "three", "four"]
