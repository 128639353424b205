"""The shop's connection to its database, and what its failures mean to a user.

Connections are in autocommit: whoever writes says BEGIN and COMMIT where a transaction starts and
ends, because those boundaries are what the streams are tested against.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors

from lockstep.contracts import DATABASE, Role
from lockstep.errors import PostgresUnavailableError
from lockstep.settings import Settings


def connect(
    settings: Settings, role: Role = Role.SHOP, database: str = DATABASE
) -> psycopg.Connection:
    """Open an autocommit connection in UTC as `role`; raises PostgresUnavailableError."""
    with database_errors(settings, role, database):
        return psycopg.connect(
            **settings.connection(role, database),
            autocommit=True,
            application_name="lockstep-shop",
            options="-c timezone=UTC",
        )


@contextmanager
def database_errors(
    settings: Settings, role: Role = Role.SHOP, database: str = DATABASE
) -> Iterator[None]:
    """Turn psycopg's errors of a missing, refusing or unprepared database into our own."""
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
