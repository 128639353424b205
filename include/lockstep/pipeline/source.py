"""A source's source.toml: what database it is, and who signs in to it.

Passwords are never here: they come from the environment. What tables the database has is in
catalog.lock (catalog.py).
"""

from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from lockstep.pipeline.errors import shown
from lockstep.pipeline.fields import Text
from lockstep.pipeline.toml_file import FormatVersion, Strict

PORT_DEFAULT = 5432
_NO_PASSWORD = "belongs in no file of the project: remove it, and set it in the environment"  # noqa: S105


def _kind(kind: object) -> object:
    if kind == "kafka":
        raise ValueError("kafka is not read in this version: only `postgres` is")
    if kind != "postgres":
        raise ValueError(f"{shown(kind)} is not known: write `postgres`")
    return kind


def _port(port: object) -> object:
    if type(port) is not int or not 0 < port < 2**16:
        raise ValueError(f"{shown(port)} is no port: write an integer from 1 to 65535")
    return port


class Roles(Strict):
    """The database roles, with the least rights each."""

    refused: ClassVar = {"password": _NO_PASSWORD}

    read: Text = Field(
        description="the role that reads tables and views: hourly runs and look-ups sign in as it"
    )
    capture: Text = Field(
        description="the role that follows the log (REPLICATION): the connector signs in as it"
    )


class SourceManifest(Strict):
    """source.toml: a PostgreSQL database whose tables are captured."""

    refused: ClassVar = {"password": _NO_PASSWORD}

    format_version: FormatVersion = Field(description="the format of this file: 1")
    kind: Annotated[Literal["postgres"], BeforeValidator(_kind)] = Field(
        description="what the source is: `postgres`, a database whose tables are captured"
    )
    host: Text = Field(description="the host name or address of the database's server")
    port: Annotated[
        int,
        BeforeValidator(_port),
        WithJsonSchema({"type": "integer", "minimum": 1, "maximum": 65535}),
    ] = Field(PORT_DEFAULT, description="the port of the database's server")
    database: Text = Field(description="the database; a source is one, and a server may have more")
    roles: Roles = Field(description="the database roles that Lockstep signs in as")
