"""Connections to a source's database, as source.toml, the settings and the environment say.

A database of the embedded server, whose source.toml has no host, is where the settings say.
"""

from typing import NamedTuple

from lockstep.accounts import Role
from lockstep.pipeline.folder import read_source_manifest
from lockstep.pipeline.project import Source
from lockstep.pipeline.project_files import SOURCE_FILE, SOURCES
from lockstep.pipeline.source import SourceManifest
from lockstep.settings import Settings
from lockstep.sources.postgres import RoleConnection, role_connection

CONNECT_SECONDS_MAX = 5


class Address(NamedTuple):
    """Of a database's server."""

    host: str
    port: int


def address_of(settings: Settings, manifest: SourceManifest) -> Address:
    """Where a source's database is."""
    if manifest.host is None:
        return Address(settings.postgres_host, settings.postgres_port)
    return Address(manifest.host, manifest.port)


def address(settings: Settings) -> Address:
    """Where the database of the pipeline that is worked for is. Raises ManifestError."""
    return address_of(settings, read_source_manifest(settings.project, settings.names.source))


def reader(settings: Settings) -> RoleConnection:
    """The role that reads the database of the pipeline that is worked for.

    Raises PipelineError or ManifestError when there is none, ConfigurationError without a password.
    """
    name = settings.names.source
    return _connection(settings, name, read_source_manifest(settings.project, name), "read")


def capturer(settings: Settings) -> RoleConnection:
    """The role that follows the log of that database. Raises as reader does."""
    name = settings.names.source
    return _connection(settings, name, read_source_manifest(settings.project, name), "capture")


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
    if manifest.host is None:
        return role_connection(settings, Role(role), manifest.database)
    found = settings.source_password(name, purpose)
    return RoleConnection(
        role=role,
        parameters={
            "host": manifest.host,
            "port": manifest.port,
            "dbname": manifest.database,
            "user": role,
            "password": found.password,
            "connect_timeout": CONNECT_SECONDS_MAX,
        },
        password_setting=found.setting,
        passwords_file=settings.secrets_path,
        address_remedy=f"start it or correct {SOURCES / name / SOURCE_FILE}",
        preparation_remedy=f"have the SQL run that `lockstep source add {name}` prints",
    )
