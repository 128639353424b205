"""A writer of random transactions in the depot, who knows what each of them left of both results.

What a row is as of a commit, PostgreSQL itself says by its views, in the transaction, just before
it ends. It works as the application does, by its role, and publishes what it changed.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple
from uuid import UUID

import psycopg
from lockstep.accounts import Role
from lockstep.settings import Settings

from tests.database_writer import DatabaseWriter

BOOKED, PACKED, PRICED = "consignments_booked", "consignments_packed", "lines_priced"
KEYS = {BOOKED: ("consignment",), PACKED: ("consignment",), PRICED: ("consignment", "line_no")}
VIEWS = {
    BOOKED: "SELECT consignment::text, booked_at, delivery::text, memo, company, contract::text, "
    "region_title, surcharge FROM freight.consignments_booked_in",
    PACKED: "SELECT consignment::text, booked_at, delivery::text, line_count, total_weight, packed "
    "FROM freight.consignments_packed_in",
    PRICED: "SELECT consignment::text, line_no, packed_at, parcels, goods_label, is_hazardous, "
    "delivery::text, company, price FROM freight.lines_priced_in",
}
"""The rows of each result, the key's columns first, in the order of its columns."""
CONSIGNMENTS = [str(UUID(int=number)) for number in range(1, 41)]
LINES_MAX = 4
DAY = "2026-03-30"
"""Of all that the writer books and packs; the data has rows of it, too."""
Key = tuple[str | int, ...]


class Written(NamedTuple):
    """What a transaction left of a row of a result; row: without the key; None: it is gone."""

    tx_id: int
    key: Key
    row: tuple | None


def rows_of(connection: psycopg.Connection, pipeline: str) -> dict[Key, tuple]:
    """All rows of a result, by key."""
    count = len(KEYS[pipeline])
    found = connection.execute(VIEWS[pipeline])
    return {tuple(row[:count]): tuple(row[count:]) for row in found}


@contextmanager
def clerk(settings: Settings) -> Iterator[psycopg.Connection]:
    """A connection with the application's rights, in autocommit."""
    with psycopg.connect(**settings.connection(Role.ADMIN, "depot"), autocommit=True) as found:
        found.execute("SET TIME ZONE 'UTC'")
        found.execute("SET ROLE depot_clerk")
        yield found


@dataclass
class Touched:
    """The rows that a transaction touches. made: lines and consignments that it has made."""

    keys: dict[str, set[Key]] = field(default_factory=lambda: {name: set() for name in KEYS})
    made: set[Key] = field(default_factory=set)

    def touch(self, key: Key) -> None:
        """A consignment or a line changed; either is a change of the consignment with its lines."""
        self.keys[BOOKED if len(key) == 1 else PRICED].add(key)
        self.keys[PACKED].add(key[:1])


class DepotWriter(DatabaseWriter[dict[str, list[Written]]]):
    """written: by pipeline, in the order of the commits."""

    def __init__(self, settings: Settings, seed: int, pause_seconds: float = 0.02) -> None:
        super().__init__(seed, pause_seconds)
        self.written: dict[str, list[Written]] = {name: [] for name in KEYS}
        self._settings = settings
        self._steps: list[tuple[float, Callable]] = [
            (0.10, _customer),
            (0.06, _region),
            (0.06, _goods),
            (0.30, _book),
            (0.12, _cancel),
            (0.26, _pack),
            (0.10, _unpack),
        ]

    def connect(self) -> AbstractContextManager[psycopg.Connection]:
        return clerk(self._settings)

    def note(self, left: dict[str, list[Written]]) -> None:
        for pipeline, written in left.items():
            self.written[pipeline] += written

    def write(self, connection: psycopg.Connection, tx_id: int) -> dict[str, list[Written]]:
        before = {pipeline: _known(connection, pipeline) for pipeline in VIEWS}
        touched = Touched()
        for _ in range(self._rng.randint(1, 4)):
            shares, steps = zip(*self._steps, strict=True)
            self._rng.choices(steps, shares)[0](connection, self._rng, touched)
        found = {}
        for pipeline, keys in touched.keys.items():
            after = rows_of(connection, pipeline)
            for key in sorted(keys):
                op = "d" if key not in after else "u" if key in before[pipeline] else "c"
                _publish(connection, pipeline, key, op)
            found[pipeline] = [Written(tx_id, key, after.get(key)) for key in sorted(keys)]
        return found


def _publish(connection: psycopg.Connection, pipeline: str, key: Key, op: str) -> None:
    casts = ["%s::uuid", "%s::smallint"][: len(key)]
    call = f"SELECT freight.lockstep_publish__{pipeline}({', '.join(casts)}, %s)"
    connection.execute(call, [*key, op])


def _known(connection: psycopg.Connection, pipeline: str) -> set[Key]:
    table = "consignment_lines" if pipeline == PRICED else "consignments"
    columns = ", ".join(KEYS[pipeline]).replace("consignment", "consignment::text", 1)
    query = f"SELECT {columns} FROM freight.{table} WHERE consignment = ANY(%s::uuid[])"
    return {tuple(row) for row in connection.execute(query, [CONSIGNMENTS])}


# What the data's rows refer to changes in few places, so that most of them stay as they were.


def _customer(connection: psycopg.Connection, rng: Random, touched: Touched) -> None:
    change = rng.choice(
        [
            "company = format('%%s %%s', branch, random(0, 99))",
            "region_code = CASE WHEN random() < 0.8 THEN 'R' || random(1, 5) END",
            "contract = contract || jsonb_build_object('discount', random(0, 9))",
        ]
    )
    where = "WHERE branch = 'BER' AND customer_no = %s"
    connection.execute(f"UPDATE freight.customers SET {change} {where}", [rng.randint(1, 3)])


def _region(connection: psycopg.Connection, rng: Random, touched: Touched) -> None:
    change = "surcharge = %s, region_title = %s WHERE region_code = 'R5'"
    values = rng.randint(0, 900) / 100, f"Region {rng.randint(1, 99)}"
    connection.execute(f"UPDATE freight.regions SET {change}", values)


def _goods(connection: psycopg.Connection, rng: Random, touched: Touched) -> None:
    change = "rate = %s, goods_label = %s WHERE goods_code = 'G8'"
    values = rng.randint(1, 9999) / 10000, f"Kaffee {rng.randint(1, 99)}"
    connection.execute(f"UPDATE freight.goods SET {change}", values)


def _book(connection: psycopg.Connection, rng: Random, touched: Touched) -> None:
    """A consignment that is new, or another customer, kind of delivery or memo of one."""
    key = rng.choice(CONSIGNMENTS)
    memo = rng.choice([None, "", 'mit "Zeichen" \\ é', "x" * 9000])
    made = connection.execute(
        "INSERT INTO freight.consignments VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT (consignment)"
        " DO UPDATE SET branch = excluded.branch, customer_no = excluded.customer_no,"
        " delivery = excluded.delivery, memo = excluded.memo RETURNING xmax = 0",
        (
            key,
            rng.choice(["BER", "BER", "MUC"]),
            rng.randint(1, 4),
            rng.choice(["standard", "express", "overnight"]),
            f"{DAY} {CONSIGNMENTS.index(key) % 24:02}:15",
            memo,
        ),
    ).fetchone()[0]
    touched.touch((key,))
    touched.made |= {(key,)} if made else set()


def _cancel(connection: psycopg.Connection, rng: Random, touched: Touched) -> None:
    """A consignment goes, its lines with it."""
    key = rng.choice(CONSIGNMENTS)
    if any(made[0] == key for made in touched.made):
        return
    query = "SELECT line_no FROM freight.consignment_lines WHERE consignment = %s"
    lines = {(key, line_no) for (line_no,) in connection.execute(query, [key])}
    delete = "DELETE FROM freight.consignments WHERE consignment = %s"
    if connection.execute(delete, [key]).rowcount:
        for one in [(key,), *lines]:
            touched.touch(one)


def _pack(connection: psycopg.Connection, rng: Random, touched: Touched) -> None:
    """A line that is new, or other goods and weights of one."""
    key, line_no = rng.choice(CONSIGNMENTS), rng.randint(1, LINES_MAX)
    found = connection.execute(
        "INSERT INTO freight.consignment_lines SELECT %s, %s, %s, %s, %s, %s FROM "
        "freight.consignments WHERE consignment = %s ON CONFLICT (consignment, line_no) DO UPDATE "
        "SET goods_code = excluded.goods_code, parcels = excluded.parcels, "
        "weight = excluded.weight RETURNING xmax = 0",
        (
            key,
            line_no,
            f"G{rng.randint(6, 8)}",
            rng.randint(1, 9),
            rng.randint(1, 99999) / 1000,
            f"{DAY} {CONSIGNMENTS.index(key) % 24:02}:{15 + line_no}",
            key,
        ),
    ).fetchone()
    if found is not None:
        touched.touch((key, line_no))
        touched.made |= {(key, line_no)} if found[0] else set()


def _unpack(connection: psycopg.Connection, rng: Random, touched: Touched) -> None:
    key = rng.choice(CONSIGNMENTS), rng.randint(1, LINES_MAX)
    where = "WHERE consignment = %s AND line_no = %s"
    if key not in touched.made and (
        connection.execute(f"DELETE FROM freight.consignment_lines {where}", key).rowcount
    ):
        touched.touch(key)
