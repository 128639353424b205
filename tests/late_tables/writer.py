"""Writes to the yard, and knows after each transaction what every pipeline's rows are."""

from dataclasses import dataclass

import psycopg

from tests.database_writer import DatabaseWriter
from tests.late_tables.yard import CONTAINERS, FIRST, NOTE_CHARACTERS, PLACES, Late, Yard

Rows = dict[int, tuple]


@dataclass(frozen=True)
class Left:
    """After a transaction. touched: the keys of each fact that it changed. rows: all, of each late
    pipeline, by PostgreSQL's own join."""

    tx_id: int
    touched: dict[str, set[int]]
    rows: dict[str, Rows]


class YardWriter(DatabaseWriter[Left]):
    """left: in the order of the commits, since `late` was set."""

    def __init__(self, yard: Yard, seed: int, pause_seconds: float = 0.05) -> None:
        super().__init__(seed, pause_seconds)
        self.left: list[Left] = []
        self.late: Late | None = None
        self._yard = yard

    def follow(self, late: Late) -> None:
        """Write to its tables, too, from now on, and to those of the one before no more."""
        self.left = []
        self.late = late

    def connect(self) -> psycopg.Connection:
        return self._yard.owner()

    def note(self, left: Left) -> None:
        self.left.append(left)

    def write(self, connection: psycopg.Connection, tx_id: int) -> Left:
        late, touched = self.late, {}
        for _ in range(self._rng.randint(1, 4)):
            self._step(connection, late, touched)
        rows = {} if late is None else {late.name: all_rows(connection, late)}
        return Left(tx_id, touched, rows)

    def _step(
        self, connection: psycopg.Connection, late: Late | None, touched: dict[str, set[int]]
    ) -> None:
        rng, what = self._rng, self._rng.random()
        key, place = rng.randrange(CONTAINERS), rng.randrange(PLACES)
        if late is not None and what < 0.3:
            self._change_place(connection, late, place, what)
            return
        fact = FIRST if late is None or rng.random() < 0.3 else late.fact
        if what < 0.4:
            text, values = f"DELETE FROM {fact} WHERE id = %s", [key]
        else:
            text = (
                f"INSERT INTO {fact} VALUES (%s, %s, %s, now()) ON CONFLICT (id) DO UPDATE "
                "SET place = excluded.place, weight = excluded.weight"
            )
            values = [key, place, rng.randrange(1000)]
        if connection.execute(text, values).rowcount:
            touched.setdefault(fact, set()).add(key)

    def _change_place(
        self, connection: psycopg.Connection, late: Late, place: int, what: float
    ) -> None:
        rng, table = self._rng, late.table
        if what < 0.05:
            connection.execute(f"DELETE FROM {table} WHERE id = %s", [place])
        elif what < 0.12:
            note = rng.choice("abc") * NOTE_CHARACTERS
            connection.execute(
                f"INSERT INTO {table} VALUES (%s, %s, %s) ON CONFLICT (id) DO UPDATE "
                "SET note = excluded.note",
                [place, f"n{rng.randrange(99)}", note],
            )
        else:  # the note is not sent
            name = f"n{rng.randrange(99)}"
            connection.execute(f"UPDATE {table} SET name = %s WHERE id = %s", [name, place])


def all_rows(connection: psycopg.Connection, late: Late) -> Rows:
    """The pipeline's rows by PostgreSQL's own join; of the note its first character and length."""
    query = (
        f"SELECT c.id, c.{late.column}, t.name, left(t.note, 1), length(t.note) "
        f"FROM {late.fact} AS c LEFT JOIN {late.table} AS t ON c.place = t.id"
    )
    return {key: tuple(row) for key, *row in connection.execute(query)}
