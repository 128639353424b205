"""Turns what Spark says when its surroundings fail into errors that a person can act on."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from lockstep.batch.errors import ResultRefusedError
from lockstep.errors import ConfigurationError, LakehouseError, LockstepError
from lockstep.settings import Settings
from lockstep.sources.errors import PostgresUnavailableError

_NO_ROOM = ("No space left on device", "Disk quota exceeded", "File too large")
_NO_RIGHTS = ("Read-only file system", "Permission denied", "Mkdirs failed")
_NO_DATABASE = "org.postgresql.util.PSQLException"
_NO_MEMORY = "java.lang.OutOfMemoryError"
_NO_JSON = "MALFORMED_RECORD_IN_PARSING"
"""Only the JSON of a view is parsed."""


@contextmanager
def spark_failures(settings: Settings, database: str = "") -> Iterator[None]:
    """Raise the LockstepError for a Spark job that database, disk or memory failed.

    database: its address in errors, if it is not the stack's own.
    Anything else keeps its own exception: it is a defect, and its traceback is wanted.
    """
    try:
        yield
    except (LockstepError, psycopg.Error):
        raise
    except Exception as error:
        address = database or f"{settings.postgres_host}:{settings.postgres_port}"
        reason = _reason(settings, address, str(error))
        if reason is None:
            raise
        raise reason from error


def _reason(settings: Settings, database: str, text: str) -> LockstepError | None:
    if _NO_DATABASE in text:
        message = text.split(_NO_DATABASE, 1)[1].lstrip(": ").partition("\n")[0]
        return PostgresUnavailableError(
            f"PostgreSQL at {database} failed while the window was read: {message}; the table is "
            "as it was: see `lockstep status`, then run again"
        )
    for known in _NO_ROOM:
        if known in text:
            return LakehouseError(
                f"the lakehouse {settings.lakehouse_uri}, or Spark's local folder, is full "
                f"({known}); the table is as it was: make room, then run again"
            )
    for known in _NO_RIGHTS:
        if known in text:
            return LakehouseError(
                f"the lakehouse {settings.lakehouse_uri} cannot be written ({known}); the table "
                "is as it was: give this user the rights, then run again"
            )
    if _NO_JSON in text:
        return ResultRefusedError(
            f"the view in PostgreSQL at {database} gives an array, struct or map that is not of "
            "the type in result.lock; the table is as it was: let the view give what query.sql "
            "gives, or read the tables (`--read tables`)"
        )
    if _NO_MEMORY in text:
        return ConfigurationError(
            f"the run needs more memory than {settings.spark_driver_memory}; the table is as it "
            "was: raise LOCKSTEP_SPARK_DRIVER_MEMORY, or run a shorter window"
        )
    return None
