"""A writer of random transactions in the plant's database, who knows what each of them left.

What a reading is as of a commit, PostgreSQL itself says, in the transaction, just before it ends.
"""

from typing import NamedTuple

import psycopg

from tests.database_writer import DatabaseWriter
from tests.plant.conftest import PlantProject

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


class PlantWriter(DatabaseWriter[list[Written]]):
    """written: in the order of the commits."""

    def __init__(self, project: PlantProject, seed: int, pause_seconds: float = 0.02) -> None:
        super().__init__(seed, pause_seconds)
        self.written: list[Written] = []
        self._project = project

    def connect(self) -> psycopg.Connection:
        return self._project.owner()

    def note(self, left: list[Written]) -> None:
        self.written += left

    def write(self, connection: psycopg.Connection, tx_id: int) -> list[Written]:
        touched = {key for _ in range(self._rng.randint(1, 5)) if (key := self._step(connection))}
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
