"""Connections to a source's database, as source.toml and the environment describe them."""

from lockstep.pipeline.project import Source
from lockstep.pipeline.project_files import SOURCE_FILE, SOURCES
from lockstep.pipeline.source import SourceManifest
from lockstep.settings import Settings, source_password_setting
from lockstep.sources.postgres import RoleConnection

CONNECT_SECONDS_MAX = 5


def reader_of(settings: Settings, source: Source) -> RoleConnection:
    """The role that reads tables and views. Raises ConfigurationError without a password."""
    return reader_at(settings, source.name, source.manifest)


def reader_at(settings: Settings, name: str, manifest: SourceManifest) -> RoleConnection:
    """The same of a source whose catalog is not known. Raises as reader_of does."""
    return _connection(settings, name, manifest, "read")


def capturer_of(settings: Settings, source: Source) -> RoleConnection:
    """The role that follows the log. Raises ConfigurationError without a password."""
    return _connection(settings, source.name, source.manifest, "capture")


def _connection(
    settings: Settings, name: str, manifest: SourceManifest, purpose: str
) -> RoleConnection:
    role = getattr(manifest.roles, purpose)
    return RoleConnection(
        role=role,
        parameters={
            "host": manifest.host,
            "port": manifest.port,
            "dbname": manifest.database,
            "user": role,
            "password": settings.source_password(name, purpose),
            "connect_timeout": CONNECT_SECONDS_MAX,
        },
        password_setting=source_password_setting(name, purpose),
        passwords_file=settings.secrets_path,
        address_remedy=f"start it or correct {SOURCES / name / SOURCE_FILE}",
        preparation_remedy=f"have the SQL run that `lockstep source add {name}` prints",
    )
