"""Connections to PostgreSQL for our own queries, with errors that a person can act on.

Connections are in autocommit: whoever needs a transaction says where it begins and ends.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager

import psycopg
from psycopg import errors

from lockstep.contracts import DATABASE, Role
from lockstep.errors import PostgresUnavailableError
from lockstep.settings import Settings


@contextmanager
def connect(
    settings: Settings, role: Role, database: str = DATABASE, *, application_name: str = "lockstep"
) -> Iterator[psycopg.Connection]:
    """A connection of the given role, in autocommit and UTC, closed at the end of the block.

    What goes wrong with the database inside the block is raised as database_errors says.
    """
    with (
        database_errors(settings, role, database),
        closing(
            psycopg.connect(
                **settings.connection(role, database),
                autocommit=True,
                application_name=application_name,
                options="-c timezone=UTC",
            )
        ) as connection,
    ):
        yield connection


@contextmanager
def database_errors(settings: Settings, role: Role, database: str = DATABASE) -> Iterator[None]:
    """Raise PostgresUnavailableError for a missing, refusing, unprepared or full database.

    Its text names address and role, and never the password.
    """
    where = f"{settings.postgres_host}:{settings.postgres_port} (database {database}, role {role})"
    try:
        yield
    except (errors.InvalidPassword, errors.InvalidAuthorizationSpecification) as error:
        raise _refused(settings, where, role) from error
    except (errors.UndefinedTable, errors.UndefinedFunction, errors.InsufficientPrivilege) as error:
        raise PostgresUnavailableError(
            f"the database at {where} is not prepared: {_first_line(error)}; "
            "run `lockstep up` to create what is missing"
        ) from error
    except (errors.DiskFull, errors.OutOfMemory) as error:
        raise PostgresUnavailableError(
            f"PostgreSQL at {where} ran out of room: {_first_line(error)}; "
            "free some and run the command again"
        ) from error
    except psycopg.OperationalError as error:
        if "password authentication failed" in str(error):
            raise _refused(settings, where, role) from error
        raise PostgresUnavailableError(
            f"PostgreSQL at {where} does not answer or hung up: {_first_line(error)}; "
            "start it with `lockstep up` or correct LOCKSTEP_POSTGRES_HOST and _PORT, then run "
            "the command again"
        ) from error


def _refused(settings: Settings, where: str, role: Role) -> PostgresUnavailableError:
    return PostgresUnavailableError(
        f"PostgreSQL at {where} refuses the password; correct LOCKSTEP_{role.upper()}_PASSWORD "
        f"(from the environment, else {settings.secrets_path})"
    )


def _first_line(error: psycopg.Error) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
