"""Looks for the stack's passwords wherever others than their owner may come to see them.

Each home's passwords are random, so that one that is found anywhere is a leak. What lies in the
home is read as bytes: logs of services, tasks and drivers, event logs of Spark, topics of Kafka,
tables, checkpoints, heartbeats, and the files of PostgreSQL, which hold Airflow's rendered fields.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import httpx
import psutil
from lockstep.host.data_folders import postgres_data
from lockstep.settings import Settings

PRIVATE = {
    Path("secrets.env"),
    Path("connect", "secrets.properties"),
    Path("connect", "rest-users.properties"),
    Path("connect", "jaas.conf"),
    Path("kafka", "jaas.conf"),
    Path("airflow", "sign-in.json"),
    Path("airflow", "keys.json"),
}
"""Where passwords are meant to be: files that their owner alone may read."""
GROUP_AND_OTHERS = 0o077


def passwords_of(settings: Settings) -> dict[str, bytes]:
    """By name: the roles' and users' passwords, and Airflow's own keys, those that there are."""
    fields = [name for name in Settings.model_fields if name.endswith("_password")]
    found = {f"LOCKSTEP_{name.upper()}": getattr(settings, name) for name in fields}
    known = {name: value.get_secret_value() for name, value in found.items() if value is not None}
    stored = settings.secrets_path.read_text(encoding="utf-8").splitlines()
    given = dict(line.split("=", 1) for line in stored if "=" in line) | os.environ
    known |= {
        name: value
        for name, value in given.items()
        if name.startswith("LOCKSTEP_SOURCE_") and name.endswith("_PASSWORD")
    }
    keys = settings.home / "airflow" / "keys.json"
    if keys.exists():
        known |= json.loads(keys.read_text(encoding="utf-8"))
    return {name: value.encode() for name, value in known.items()}


def leaks(settings: Settings) -> list[str]:
    """Where which password is seen that must not be there, and private files others may read."""
    passwords = passwords_of(settings)
    assert passwords, "there is no password to look for"
    open_files = [f"{path} is not its owner's alone" for path in _open_to_others(settings)]
    return [*open_files, *seen_in(passwords, {**_connect_answers(settings), **_arguments()})] + [
        leak for file in _files(settings) for leak in seen_in(passwords, {str(file): _bytes(file)})
    ]


def seen_in(passwords: Mapping[str, bytes], texts: Mapping[str, bytes]) -> list[str]:
    """Each text that has a password in it, with the password's name and never with itself."""
    return [
        f"{where}: {name}"
        for where, text in texts.items()
        for name, password in passwords.items()
        if password in text
    ]


def _open_to_others(settings: Settings) -> Iterator[Path]:
    files = (settings.home / path for path in PRIVATE)
    return (file for file in files if file.exists() and file.stat().st_mode & GROUP_AND_OTHERS)


def _files(settings: Settings) -> Iterator[Path]:
    """Every file of the home and of the database, but the private ones."""
    private = {settings.home / path for path in PRIVATE}
    folders: Iterable[Path] = {settings.home, postgres_data(settings)}
    for folder in folders:
        yield from (f for f in folder.rglob("*") if f.is_file() and f not in private)


def _bytes(file: Path) -> bytes:
    """Empty when it has gone: services remove files as they work."""
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return b""


def _arguments() -> dict[str, bytes]:
    """The command line of every process that there is, by its id."""
    return {
        f"arguments of process {process.pid}": " ".join(process.info["cmdline"] or []).encode()
        for process in psutil.process_iter(["cmdline"])
    }


def _connect_answers(settings: Settings) -> dict[str, bytes]:
    """What Kafka Connect says of its connectors; nothing when it does not run."""
    try:
        with httpx.Client(
            base_url=settings.connect_url, auth=settings.connect_auth, timeout=30
        ) as connect:
            names = connect.get("/connectors").json()
            paths = ["/connectors?expand=info&expand=status"]
            paths += [f"/connectors/{n}/{of}" for n in names for of in ("config", "tasks")]
            return {f"Connect's {path}": connect.get(path).content for path in paths}
    except httpx.ConnectError:
        return {}
