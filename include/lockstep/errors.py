"""The errors a user can meet. Each says what is wrong, with its numbers, and what to do.

Entry points print such an error on one line and exit with its ``exit_code``; anything else is a
defect of ours and keeps its traceback.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


class LockstepError(Exception):
    """Base of every expected failure."""

    exit_code = 2


class ConfigurationError(LockstepError):
    """A setting is missing, malformed, or contradicts another."""


class WindowError(LockstepError):
    """The window of order times cannot be used."""


class JarsIncompleteError(LockstepError):
    """The JVM parts are missing or damaged."""


class PostgresUnavailableError(LockstepError):
    """PostgreSQL does not answer, refuses the role, or lacks a table."""


class LakehouseError(LockstepError):
    """The lakehouse cannot be read or written: no table, missing rights, no room, a lock held."""


class WindowNotWrittenError(LakehouseError):
    """No run's commit replaced exactly this window, or a later run wrote over it."""


class WriterBusyError(LakehouseError):
    """Another process is writing the same table."""


class QueryError(LockstepError):
    """A SQL query over the lakehouse cannot be answered."""


class QualityStoreError(LockstepError):
    """The folder of the quality checks (results, Data Docs) cannot be used."""


class ServiceError(LockstepError):
    """A service of the embedded stack did not start, stopped, or does not answer."""


class InputDataError(LockstepError):
    """A file given to a loader is missing or malformed."""


@contextmanager
def exit_on_error() -> Iterator[None]:
    """For each main: a LockstepError becomes one line on standard error and its exit code."""
    try:
        yield
    except LockstepError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(error.exit_code)
