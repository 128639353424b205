"""Connections to PostgreSQL for our own queries, with errors that a person can act on."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors

from lockstep.contracts import DATABASE, Role
from lockstep.errors import PostgresUnavailableError
from lockstep.settings import Settings


@contextmanager
def connect(
    settings: Settings, role: Role, database: str = DATABASE, *, autocommit: bool = True
) -> Iterator[psycopg.Connection]:
    """A connection of the given role, closed at the end of the block.

    Raises PostgresUnavailableError when the database does not answer, refuses the role, lacks a
    table or a right, or is lost on the way; never with the password in its text.
    """
    where = f"PostgreSQL at {settings.postgres_host}:{settings.postgres_port}"
    try:
        with psycopg.connect(
            **settings.connection(role, database), autocommit=autocommit
        ) as connection:
            yield connection
    except (errors.UndefinedTable, errors.InsufficientPrivilege) as error:
        raise PostgresUnavailableError(
            f"{where}, database {database}, role {role}: {error.diag.message_primary}; "
            "`lockstep up --only postgres` creates the tables and grants the rights"
        ) from error
    except psycopg.OperationalError as error:
        reason = str(error).strip().splitlines()[-1]
        raise PostgresUnavailableError(
            f"{where} cannot be used as role {role} on database {database}: {reason}; "
            "see `lockstep status`, LOCKSTEP_POSTGRES_HOST and LOCKSTEP_POSTGRES_PORT, and the "
            f"passwords in {settings.secrets_path}"
        ) from error
