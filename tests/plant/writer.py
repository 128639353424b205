"""A writer of random transactions in the plant's database, who knows what each of them left.

What a reading is as of a commit, PostgreSQL itself says, in the transaction, just before it ends.
"""

import threading
import time
from random import Random
from typing import NamedTuple

import psycopg

from tests.plant.conftest import PlantProject

SECONDS_MAX = 120.0
ENRICHED = """
SELECT r.$id::text, s.$name, w.$city, (r.$value * s.$factor)::numeric(18, 6)
FROM $schema.$fact AS r
LEFT JOIN $schema.$sensor AS s ON r.$sensor_id = s.$id
LEFT JOIN $site AS w ON s.$site_code = w.$code
WHERE r.$id = ANY(%s)
"""
SENSORS = [f"00000000-0000-0000-0000-{number:012}" for number in range(4)]
READINGS = [f"00000000-0000-0000-0001-{number:012}" for number in range(40)]
CODES = ["A", "B", "nowhere"]


class Written(NamedTuple):
    """What a transaction left of a reading; row: name, city, amount; None when it is gone."""

    tx_id: int
    key: str
    row: tuple | None


class PlantWriter(threading.Thread):
    """Writes until it is stopped, also through restarts of PostgreSQL.

    written: in the order of the commits, since one connection writes everything.
    """

    def __init__(self, project: PlantProject, seed: int, pause_seconds: float = 0.02) -> None:
        super().__init__(daemon=True)
        self.written: list[Written] = []
        self._project, self._rng, self._pause = project, Random(seed), pause_seconds
        self._ended = threading.Event()
        self._number = 0
        self.failure: Exception | None = None

    def run(self) -> None:
        try:
            while not self._ended.is_set():
                self._write_until_lost()
        except Exception as error:  # the test's thread shows it
            self.failure = error

    def end(self) -> list[Written]:
        """Stop, and return what was written."""
        self._ended.set()
        self.join(SECONDS_MAX)
        assert self.failure is None, self.failure
        return self.written

    def _write_until_lost(self) -> None:
        found: list[Written] = []
        try:
            with self._project.owner() as connection:
                connection.execute("CREATE TABLE IF NOT EXISTS written (number bigint)")
                while not self._ended.wait(self._pause):
                    self._number += 1
                    found = []
                    with connection.transaction():
                        found = self._transaction(connection)
                    self.written += found
        except (psycopg.OperationalError, psycopg.InterfaceError):
            if found and self._is_committed():
                self.written += found

    def _transaction(self, connection: psycopg.Connection) -> list[Written]:
        """Also a row of `written`, by which it is known later whether the commit came to be."""
        connection.execute("INSERT INTO written VALUES (%s)", [self._number])
        touched = {key for _ in range(self._rng.randint(1, 5)) if (key := self._step(connection))}
        tx_id = connection.execute("SELECT pg_current_xact_id()::text::bigint").fetchone()[0]
        sql = self._project.plant.sql(ENRICHED)
        rows = {key: tuple(row) for key, *row in connection.execute(sql, [sorted(touched)])}
        return [Written(tx_id, key, rows.get(key)) for key in sorted(touched)]

    def _step(self, connection: psycopg.Connection) -> str | None:
        """One statement; the key of the reading that it changes, if it does."""
        rng, what = self._rng, self._rng.random()
        sensor, code = rng.choice(SENSORS), rng.choice(CODES)
        if what < 0.2:
            self._execute(
                connection,
                "INSERT INTO $schema.$sensor VALUES (%s, %s, %s, %s, %s) ON CONFLICT ($id) "
                "DO UPDATE SET $name = excluded.$name, $factor = excluded.$factor, "
                "$site_code = excluded.$site_code",
                (
                    sensor,
                    SENSORS.index(sensor),
                    f"n{rng.randint(1, 99)}",
                    rng.choice([1.5, None]),
                    code,
                ),
            )
        elif what < 0.3:
            self._execute(
                connection,
                "INSERT INTO $site VALUES (%s, %s) ON CONFLICT ($code) "
                "DO UPDATE SET $city = excluded.$city",
                (code, f"c{rng.randint(1, 99)}"),
            )
        elif what < 0.34:
            self._execute(connection, "DELETE FROM $schema.$sensor WHERE $id = %s", (sensor,))
        else:
            return self._change_reading(connection, rng.choice(READINGS), sensor)
        return None

    def _change_reading(self, connection: psycopg.Connection, key: str, sensor: str) -> str | None:
        if self._rng.random() < 0.2:
            gone = self._execute(connection, "DELETE FROM $schema.$fact WHERE $id = %s", (key,))
            return key if gone else None
        self._execute(
            connection,
            "INSERT INTO $schema.$fact VALUES (%s, %s, %s, now()) ON CONFLICT ($id) "
            "DO UPDATE SET $sensor_id = excluded.$sensor_id, $value = excluded.$value",
            (key, sensor, self._rng.randint(-9, 9)),
        )
        return key

    def _execute(self, connection: psycopg.Connection, text: str, values: tuple) -> int:
        return connection.execute(self._project.plant.sql(text), values).rowcount

    def _is_committed(self) -> bool:
        """Whether the last transaction is; asks until the database answers again."""
        deadline = time.monotonic() + SECONDS_MAX
        while True:
            try:
                with self._project.owner() as connection:
                    query = "SELECT count(*) FROM written WHERE number = %s"
                    return connection.execute(query, [self._number]).fetchone()[0] > 0
            except (psycopg.OperationalError, psycopg.InterfaceError):
                assert time.monotonic() < deadline, "PostgreSQL does not come back"
                time.sleep(0.2)
