"""Where the embedded services keep their data, for those that look at its size or make it.

As root, PostgreSQL's is below ROOT_FOLDER (devstack/postgres_files.py says why).
"""

import os
import secrets
from pathlib import Path

from lockstep.host.files import write_private_once
from lockstep.settings import Settings

SERVER_USER = "lockstep"
ROOT_FOLDER = Path("/var/lib/lockstep")


def postgres_folder(settings: Settings) -> Path:
    """The folder that holds the data; named by HOME/postgres-location when run as root."""
    if server_user() is None:
        return settings.home / "postgres"
    location = settings.home / "postgres-location"
    chosen = ROOT_FOLDER / f"{settings.home.name.lstrip('.')}-{secrets.token_hex(4)}"
    write_private_once(location, f"{chosen}\n")
    return Path(location.read_text().strip())


def postgres_data(settings: Settings) -> Path:
    return postgres_folder(settings) / "data"


def server_user() -> str | None:
    """The user to run the server as: None for our own, which root must not be."""
    return SERVER_USER if os.geteuid() == 0 else None


def kafka_data(settings: Settings) -> Path:
    return settings.home / "kafka" / "data"


def topic_folder(settings: Settings, topic: str) -> Path:
    """Where the records of a topic's only partition are."""
    return kafka_data(settings) / f"{topic}-0"
