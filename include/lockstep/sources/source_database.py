"""Connections to a source's database, as source.toml and the environment describe them."""

from lockstep.pipeline.folder import SOURCES
from lockstep.pipeline.project import Source
from lockstep.pipeline.source import SOURCE_FILE
from lockstep.settings import Settings, source_password_setting
from lockstep.sources.postgres import RoleConnection

CONNECT_SECONDS_MAX = 5


def reader_of(settings: Settings, source: Source) -> RoleConnection:
    """The role that reads tables and views. Raises ConfigurationError without a password."""
    return _connection(settings, source, source.manifest.roles.read, "read")


def capturer_of(settings: Settings, source: Source) -> RoleConnection:
    """The role that follows the log. Raises ConfigurationError without a password."""
    return _connection(settings, source, source.manifest.roles.capture, "capture")


def _connection(settings: Settings, source: Source, role: str, purpose: str) -> RoleConnection:
    manifest = source.manifest
    return RoleConnection(
        role=role,
        parameters={
            "host": manifest.host,
            "port": manifest.port,
            "dbname": manifest.database,
            "user": role,
            "password": settings.source_password(source.name, purpose),
            "connect_timeout": CONNECT_SECONDS_MAX,
        },
        password_setting=source_password_setting(source.name, purpose),
        passwords_file=settings.secrets_path,
        address_remedy=f"start it or correct {SOURCES / source.name / SOURCE_FILE}",
    )
