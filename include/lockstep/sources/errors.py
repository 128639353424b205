"""What can be wrong with what a source's tables hold. Each error says where, and what to do."""

from lockstep.errors import LockstepError


class SourceValueError(LockstepError):
    """A table of a source has values that a Delta table cannot hold, or that are in no window."""

    restart_helps = False


class PostgresUnavailableError(LockstepError):
    """PostgreSQL does not answer, refuses the role, or lacks a table."""


class QueryError(LockstepError):
    """A SQL query over the lakehouse cannot be answered."""
