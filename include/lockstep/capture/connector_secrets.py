"""The passwords that connectors refer to, in one private file that Connect reads.

Who signs in to Connect's REST interface can refer to them. A connector takes a password from the
file when it starts, so what another one wrote there before stays.
"""

from collections.abc import Mapping
from pathlib import Path

from lockstep.errors import ServiceError
from lockstep.file_lock import FileLock
from lockstep.host.files import make_private_folder, write_private
from lockstep.jvm.java import properties
from lockstep.settings import Settings

CDC_PASSWORD_KEY = "cdc.password"  # noqa: S105
PATIENCE_SECONDS = 10.0


def source_key(source: str) -> str:
    """What the password of a source's capture role is called in the file."""
    return f"source.{source}.capture.password"


def secrets_file(settings: Settings) -> Path:
    return settings.home / "connect" / "secrets.properties"


def keep_passwords(settings: Settings, passwords: Mapping[str, str]) -> None:
    """Write these passwords, by key, next to those of other keys. Raises ServiceError."""
    file = secrets_file(settings)
    make_private_folder(file.parent)
    try:
        lock = FileLock.acquire(
            file.with_suffix(".lock"),
            lambda pid: ServiceError(f"{file} is being written by another process ({pid}): wait"),
            patience_seconds=PATIENCE_SECONDS,
        )
        with lock:
            lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
            others = [line for line in lines if line.partition("=")[0] not in passwords]
            kept = "".join(f"{line}\n" for line in others)
            write_private(file, kept + properties(passwords))
    except OSError as error:
        raise ServiceError(f"{file} cannot be written: {error}; see its rights") from error


def password_reference(settings: Settings, key: str) -> str:
    """What stands for a password in a connector's configuration, its topic and REST answers."""
    return f"${{file:{secrets_file(settings)}:{key}}}"
