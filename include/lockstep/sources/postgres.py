"""Connections to PostgreSQL for our own queries, with errors that a person can act on.

Connections are in autocommit: what needs a transaction says where it begins and ends.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from psycopg import errors

from lockstep.settings import Settings
from lockstep.sources.errors import PostgresUnavailableError


@dataclass(frozen=True)
class RoleConnection:
    """All that it takes to reach one database as one role, for another process too.

    Executors get this and never the settings, which hold every password.
    """

    role: str
    parameters: dict[str, object] = field(repr=False)
    """Keyword arguments for psycopg.connect, the password among them."""
    password_setting: str
    """The environment variable of the password; errors name it."""
    passwords_file: Path
    """Where the settings read a password that the environment does not give; errors name it."""
    address_remedy: str
    """What to do when nothing answers at the address; errors say it."""
    preparation_remedy: str
    """What to do when tables, functions or rights are missing; errors say it."""

    def __str__(self) -> str:
        address = "{host}:{port} (database {dbname}, role {user})"
        return address.format_map(self.parameters)


def role_connection(settings: Settings, role: str, database: str = "") -> RoleConnection:
    """This role's part of the settings. Raises as Settings.connection does."""
    return RoleConnection(
        role=str(role),
        parameters=settings.connection(role, database),
        password_setting=settings.role_password(role).setting,
        passwords_file=settings.secrets_path,
        address_remedy="start it with `lockstep up` or correct LOCKSTEP_POSTGRES_HOST and _PORT",
        preparation_remedy="run `lockstep up` to create what is missing",
    )


@contextmanager
def connect(
    settings: Settings,
    role: str,
    database: str = "",
    *,
    application_name: str = "lockstep",
) -> Iterator[psycopg.Connection]:
    """A connection of the given role to the stack's own database, as `connect_to` gives it."""
    target = role_connection(settings, role, database)
    with connect_to(target, application_name=application_name) as connection:
        yield connection


@contextmanager
def connect_to(
    target: RoleConnection, *, application_name: str = "lockstep"
) -> Iterator[psycopg.Connection]:
    """A connection in autocommit and UTC, closed at the end of the block.

    What goes wrong with the database inside the block is raised as database_errors says.
    """
    with (
        database_errors(target),
        closing(
            psycopg.connect(
                **target.parameters,
                autocommit=True,
                application_name=application_name,
                options="-c timezone=UTC",
            )
        ) as connection,
    ):
        yield connection


@contextmanager
def database_errors(target: RoleConnection) -> Iterator[None]:
    """Raise PostgresUnavailableError for a missing, refusing, unprepared or full database.

    Its text names address and role, and never the password.
    """
    try:
        yield
    except (errors.InvalidPassword, errors.InvalidAuthorizationSpecification) as error:
        raise _refused(target) from error
    except (errors.UndefinedTable, errors.UndefinedFunction, errors.InsufficientPrivilege) as error:
        raise PostgresUnavailableError(
            f"the database at {target} is not prepared: {_first_line(error)}; "
            f"{target.preparation_remedy}"
        ) from error
    except (errors.DiskFull, errors.OutOfMemory) as error:
        raise PostgresUnavailableError(
            f"PostgreSQL at {target} ran out of room: {_first_line(error)}; "
            "free some and run the command again"
        ) from error
    except psycopg.OperationalError as error:
        if "password authentication failed" in str(error):
            raise _refused(target) from error
        raise PostgresUnavailableError(
            f"PostgreSQL at {target} does not answer or hung up: {_first_line(error)}; "
            f"{target.address_remedy}, then run the command again"
        ) from error


def _refused(target: RoleConnection) -> PostgresUnavailableError:
    return PostgresUnavailableError(
        f"PostgreSQL at {target} refuses the password; correct {target.password_setting} "
        f"(from the environment, else {target.passwords_file})"
    )


def _first_line(error: psycopg.Error) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
