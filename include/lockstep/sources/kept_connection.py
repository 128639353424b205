"""One connection to PostgreSQL for a thread that asks again and again: a look-up, a heartbeat.

A thread is one of the driver's, or the only one of a Python worker of Spark. Workers are
reused (spark.python.worker.reuse), so both find their connection open and their statements
prepared. A thread or a worker that ends takes its connection along.
"""

import threading
from collections.abc import Callable
from typing import TypeVar

import psycopg
from psycopg import errors
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_exponential

from lockstep.sources.postgres import RoleConnection, database_errors

ANSWER_SECONDS_MAX = 30.0
"""Crash recovery takes seconds; whatever takes longer is the supervision's, and a stop must not."""
APPLICATION_NAME = "lockstep look-up"
_PARAMETERS = {
    "autocommit": True,
    "application_name": APPLICATION_NAME,
    # Only a lock on a whole table (TRUNCATE, a migration) can hold a look-up that long.
    "options": "-c timezone=UTC -c statement_timeout=30s",
    # A host that vanished without closing the connection is noticed within half a minute.
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "tcp_user_timeout": 30_000,
}
_kept = threading.local()
"""Connections by address and role."""

Answer = TypeVar("Answer")


def answer(
    target: RoleConnection,
    question: Callable[[psycopg.Connection], Answer],
    *,
    seconds_max: float = ANSWER_SECONDS_MAX,
) -> Answer:
    """Ask over this thread's connection; a lost one is opened again and the question repeated.

    question: only reads, so that asking twice is harmless.
    Raises PostgresUnavailableError when the database does not come back within seconds_max, refuses
    the role, or lacks what is asked for.
    """
    attempts = Retrying(
        retry=retry_if_exception(_may_pass),
        wait=wait_exponential(multiplier=0.05, max=1.0),
        stop=stop_after_delay(seconds_max),
        reraise=True,
    )
    with database_errors(target):
        return attempts(_ask, target, question)


def _ask(target: RoleConnection, question: Callable[[psycopg.Connection], Answer]) -> Answer:
    key = str(target)
    connection = _kept.__dict__.get(key)
    if connection is None or connection.closed:
        connection = psycopg.connect(**target.parameters, **_PARAMETERS)
        _kept.__dict__[key] = connection
    return question(connection)


def _may_pass(error: BaseException) -> bool:
    """Whether it is worth asking again: the server went away, restarts, or is full of others."""
    lasting = (
        errors.InvalidAuthorizationSpecification,
        errors.QueryCanceled,
        errors.DiskFull,
        errors.OutOfMemory,
    )
    return (
        isinstance(error, psycopg.OperationalError)
        and not isinstance(error, lasting)
        and "authentication failed" not in str(error)
    )
