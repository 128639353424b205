"""A source's source.toml: what database it is, and who signs in to it.

Passwords are never here: they come from the environment. What tables the database has is in
catalog.lock (catalog.py).
"""

import re
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from lockstep.accounts import Role
from lockstep.pipeline.errors import shown
from lockstep.pipeline.fields import Text, Unrepeated
from lockstep.pipeline.toml_file import FormatVersion, Strict

PORT_DEFAULT = 5432
_SLOT = re.compile(r"[a-z0-9_]{1,63}")
_CONNECTOR = re.compile(r"[A-Za-z0-9_-]{1,100}")
_ROLE = re.compile(r"[a-z_][a-z0-9_]{0,62}")
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


def _slot(name: str) -> str:
    if not _SLOT.fullmatch(name):
        raise ValueError(f"{shown(name)} is no slot's name: write 1 to 63 of a-z, 0-9 and _")
    return name


def _connector(name: str) -> str:
    if not _CONNECTOR.fullmatch(name):
        raise ValueError(f"{shown(name)} is no connector's name: write A-Z, a-z, 0-9, _ and -")
    return name


class Roles(Strict):
    """The database roles, with the least rights each."""

    refused: ClassVar = {"password": _NO_PASSWORD}

    read: Text = Field(
        description="the role that reads tables and views: hourly runs and look-ups sign in as it"
    )
    capture: Text = Field(
        description="the role that follows the log (REPLICATION): the connector signs in as it"
    )


EMBEDDED_ROLES = Roles(read=Role.BATCH_READER, capture=Role.CDC)
"""Of a database of the embedded server."""


def _login(role: str) -> str:
    if not _ROLE.fullmatch(role):
        raise ValueError(
            f"{shown(role)} is no login: write 1 to 63 of a-z, 0-9 and _, a letter or _ first"
        )
    if role in {*Role, "read", "capture"}:
        raise ValueError(f"{shown(role)} is a role of Lockstep's own: take it out")
    return role


class SourceManifest(Strict):
    """source.toml: a PostgreSQL database whose tables are captured."""

    refused: ClassVar = {"password": _NO_PASSWORD}

    format_version: FormatVersion = Field(description="the format of this file: 1")
    kind: Annotated[Literal["postgres"], BeforeValidator(_kind)] = Field(
        description="what the source is: `postgres`, a database whose tables are captured"
    )
    host: Text | None = Field(
        None,
        description="the host name or address of the database's server; without it the database is "
        "one of the embedded server, whose address, roles and passwords are settings",
    )
    port: Annotated[
        int,
        BeforeValidator(_port),
        WithJsonSchema({"type": "integer", "minimum": 1, "maximum": 65535}),
    ] = Field(PORT_DEFAULT, description="the port of the database's server, with a host")
    database: Text = Field(description="the database; a source is one, and a server may have more")
    roles: Roles = Field(
        EMBEDDED_ROLES, description="the database roles that Lockstep signs in as, with a host"
    )
    logins: Annotated[tuple[Annotated[str, AfterValidator(_login)], ...], Unrepeated] = Field(
        (),
        description="without a host: the roles of the source's applications, of its "
        "database/roles.sql, that get a password from `lockstep up`, "
        "LOCKSTEP_SOURCE_<source>__<role>_PASSWORD",
        json_schema_extra={"uniqueItems": True},
    )
    slot: Annotated[str, AfterValidator(_slot)] | None = Field(
        None,
        description="the replication slot, where it is not to have the name that Lockstep gives: "
        "at most 63 of a-z, 0-9 and _; no other slot of the server may have it",
    )
    publication: Text | None = Field(
        None, description="the publication, where it is not to have the name that Lockstep gives"
    )
    connector: Annotated[str, AfterValidator(_connector)] | None = Field(
        None,
        description="the connector in Kafka Connect, and its topic.prefix, where it is not to have "
        "the name that Lockstep gives: of A-Z, a-z, 0-9, _ and -",
    )

    @model_validator(mode="after")
    def _host_with_roles(self) -> Self:
        own = self.model_fields_set & {"port", "roles"}
        if self.host is None and own:
            raise ValueError(
                f"`{min(own)}` stands without `host`: a database of the embedded server has the "
                "address and the roles of the settings; write `host`, or leave that out"
            )
        if self.host is not None and self.logins:
            raise ValueError(
                "`logins` stands with `host`: the administrator of that server gives its roles "
                "their passwords; take `logins` out"
            )
        if self.host is not None and "roles" not in own:
            raise ValueError("`roles` is missing: name the roles that read and capture sign in as")
        return self
