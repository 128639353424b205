"""A writer of random transactions in a database, who knows what each of them left."""

import math
import threading
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from random import Random
from typing import Generic, TypeVar

import psycopg
from lockstep_tools.soak.commit_status import committed_ids
from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_fixed

SECONDS_MAX = 120.0
LOST = (psycopg.OperationalError, psycopg.InterfaceError)

Left = TypeVar("Left")


class DatabaseWriter(threading.Thread, ABC, Generic[Left]):
    """Writes until it is stopped, also through restarts of PostgreSQL.

    `note` takes what transactions left in the order of their commits: one connection writes all.
    With `allow` it writes in steps: then a slow machine has the same work to do as a quick one.
    """

    def __init__(self, seed: int, pause_seconds: float) -> None:
        super().__init__(daemon=True)
        self.failure: Exception | None = None
        self._rng, self._pause = Random(seed), pause_seconds
        self._committed, self._committed_max = 0, math.inf
        self._ended = threading.Event()

    @abstractmethod
    def connect(self) -> AbstractContextManager[psycopg.Connection]:
        """A new connection, in autocommit."""

    @abstractmethod
    def write(self, connection: psycopg.Connection, tx_id: int) -> Left:
        """Change rows in the transaction that is open, tx_id, and say what it leaves."""

    @abstractmethod
    def note(self, left: Left) -> None:
        """Keep what a transaction left that is committed."""

    def allow(self, transactions: int) -> None:
        """Write so many from now on, and then nothing until the next call."""
        self._committed_max = self._committed + transactions

    def run(self) -> None:
        try:
            while not self._ended.wait(self._pause):
                self._write_until_lost()
        except Exception as error:  # the test's thread shows it
            self.failure = error

    def end(self) -> None:
        """Stop. Fails when it could not write."""
        self._ended.set()
        self.join(SECONDS_MAX)
        assert self.failure is None, repr(self.failure)

    def _write_until_lost(self) -> None:
        last: tuple[int, Left] | None = None
        try:
            with self.connect() as connection:
                while not self._ended.wait(self._pause):
                    if self._committed >= self._committed_max:
                        continue
                    last = None
                    with connection.transaction():
                        query = "SELECT pg_current_xact_id()::text::bigint"
                        tx_id = connection.execute(query).fetchone()[0]
                        left = self.write(connection, tx_id)
                        last = tx_id, left
                    self.note(left)
                    self._committed += 1
        except LOST:
            if last is not None and self._is_committed(last[0]):
                self.note(last[1])

    @retry(
        retry=retry_if_exception_type(LOST),
        stop=stop_after_delay(SECONDS_MAX),
        wait=wait_fixed(0.2),
        reraise=True,
    )
    def _is_committed(self, tx_id: int) -> bool:
        """Whether the last transaction is; asks until the database answers again."""
        with self.connect() as connection:
            return tx_id in committed_ids(connection, [tx_id])
