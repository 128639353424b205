"""Where a source's database is, from a URL. A URL with a password is refused, and shown nowhere."""

from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from lockstep.errors import ConfigurationError
from lockstep.pipeline.source import PORT_DEFAULT
from lockstep.settings import source_password_setting

_FORM = "write postgres://host:port/database, with user@ before the host for the role that reads"


class SourceAddress(NamedTuple):
    """role: empty when the URL has no user."""

    host: str
    port: int
    database: str
    role: str


def parse_address(url: str, source: str) -> SourceAddress:
    """The address in a URL of PostgreSQL.

    Raises ConfigurationError for a password in it, and for what it has more or less than
    host, port, database and user.
    """
    try:
        parts = urlsplit(url)
        port = parts.port or PORT_DEFAULT
    except ValueError:
        raise ConfigurationError(
            f"the address of source {source} cannot be read: {_FORM}"
        ) from None
    if parts.password is not None or "password" in parts.query:
        raise ConfigurationError(
            f"the address of source {source} has a password, which belongs in the environment: "
            f"take it out, set {source_password_setting(source, 'read')}, and change the password "
            "if others may have seen this command"
        )
    database = parts.path.removeprefix("/")
    is_strange = parts.scheme not in ("postgres", "postgresql") or parts.query or parts.fragment
    if is_strange or not parts.hostname or not database or set("/@") & set(database):
        raise ConfigurationError(f"the address of source {source} cannot be read: {_FORM}")
    return SourceAddress(parts.hostname, port, unquote(database), unquote(parts.username or ""))
