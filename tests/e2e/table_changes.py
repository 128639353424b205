"""A shop whose tables are changed by hand, and a runner of each mode that follows the real topic.

Runners are fed with what Debezium wrote, record by record and without Spark's streaming query, so
that a test can stop, look, and go on.
"""

import json
import shutil
import time
import uuid
from base64 import b64encode
from decimal import Decimal
from pathlib import Path

import psycopg
from lockstep.cdc.errors import PoisonedRecordError
from lockstep.enrich.plans import result_columns
from lockstep.model.modes import HISTORY, StreamMode
from lockstep.pipeline.catalog import write_catalog
from lockstep.pipeline.plan import plan_named
from lockstep.pipeline.result import RESULT_FILE, write_result
from lockstep.settings import Settings
from lockstep.sources import change_topic
from lockstep.sources.database_catalog import read_database_catalog
from lockstep.sources.delta import open_table, run_query
from lockstep.streams.follower import Follower
from lockstep.streams.modes import Modes
from lockstep.streams.skip import skip_records
from pizzeria.names import (
    CLIENTS,
    DIMENSION_TABLES,
    MANIFEST,
    PIZZAS,
    SOURCE,
    SOURCE_HISTORY,
    TABLE_ASSIGNMENT,
    TABLES,
    Login,
    change_log_table,
)
from pyspark.sql import SparkSession

from tests.project import PROJECT_DIR
from tests.streams.topics import follower_of

CAPTURED_SECONDS_MAX = 120
ALL = (HISTORY, *map(str, StreamMode))
"""The history first, for which others wait where they do not keep the rows."""
COLUMNS = {
    CLIENTS: ("id", "name"),
    TABLES: ("id", "name"),
    PIZZAS: ("id", "name", "price"),
    TABLE_ASSIGNMENT: ("id", "client_id", "table_id"),
}
RACED = ("raced",)
OPENING = (
    "INSERT INTO clients (name) VALUES ('Anna')",
    "INSERT INTO tables (name) VALUES ('T1')",
    "INSERT INTO pizzas (name, price) VALUES ('Verdure', 9.50), ('Margherita', 8)",
    """INSERT INTO table_assignment (client_id, table_id, in_time)
    SELECT (SELECT max(id) FROM clients), (SELECT max(id) FROM tables), now()""",
)
"""New rows of every dimension, of which the next order is made."""
_ORDER = """
INSERT INTO orders (table_assignment_id, order_time, pizzas)
SELECT max(id), now(), array(SELECT id FROM pizzas ORDER BY id DESC LIMIT 2) || 7
FROM table_assignment RETURNING id
"""
_VIEW = "SELECT order_time, client_name, table_name, pizzas::text FROM order_enriched_in"
_STATE = """
SELECT * FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY {key} ORDER BY commit_lsn DESC) AS age FROM log
) AS newest WHERE age = 1 AND op <> 'd'
"""


class Shop:
    """The database, and what each order was when it was committed, by the database's own view."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.orders: dict[int, tuple] = {}

    def run(self, *statements: str) -> None:
        """One transaction."""
        with self._connection() as connection:
            for statement in statements:
                connection.execute(statement)
        self._forget_deleted()

    def order(self, *before: str) -> int:
        """The statements and an order, in one transaction."""
        with self._connection() as connection:
            for statement in before:
                connection.execute(statement)
            (id_,) = connection.execute(_ORDER).fetchone()
            connection.execute("SELECT publish_order(%s, 'c')", [id_])
            at, client, table, pizzas = connection.execute(
                f"{_VIEW} WHERE order_id = %s", [id_]
            ).fetchone()
        items = json.loads(pizzas, parse_float=Decimal, parse_int=Decimal)
        self.orders[id_] = at, client, table, [(one["pizza"], one["price"]) for one in items]
        self._forget_deleted()
        return id_

    def rows(self, dimension: str) -> set[tuple]:
        with self._connection() as connection:
            columns = ", ".join(COLUMNS[dimension])
            return set(connection.execute(f"SELECT {columns} FROM {dimension}").fetchall())

    def mark(self) -> bytes:
        """Emit a message; returns how it looks in the change topic."""
        text = f"mark {uuid.uuid4()}"
        self.run(f"SELECT pg_logical_emit_message(true, 'tests', '{text}')")
        return b64encode(text.encode())

    def _forget_deleted(self) -> None:
        with self._connection() as connection:
            alive = {id_ for (id_,) in connection.execute("SELECT id FROM orders")}
        self.orders = {id_: row for id_, row in self.orders.items() if id_ in alive}

    def _connection(self) -> psycopg.Connection:
        return psycopg.connect(**self.settings.connection(Login.OWNER))


class Followers:
    """A runner for each mode, and one for the history."""

    def __init__(self, spark: SparkSession, settings: Settings) -> None:
        self._spark = spark
        project = settings.home / "project"
        for folder in (Path("include", "sources"), Path("include", "sql")):
            shutil.copytree(PROJECT_DIR / folder, project / folder)
        shutil.copy(PROJECT_DIR / "pyproject.toml", project)
        own = {"lakehouse": str(settings.home / "lakehouse"), "project": project}
        self.settings = settings.model_copy(update=own)
        self._records: list[tuple[int, bytes | None]] = []
        self._runners: dict[str, Follower] = {}
        self.given_up: frozenset[int] = frozenset()

    def await_topic(self, shop: Shop) -> None:
        """Until Debezium has written all that the shop did up to now."""
        mark, deadline = shop.mark(), time.monotonic() + CAPTURED_SECONDS_MAX
        is_marked = False
        while not is_marked or b'"END"' not in (self._records[-1][1] or b""):
            assert time.monotonic() < deadline, "Debezium does not write what was committed"
            first = self._records[-1][0] + 1 if self._records else 0
            new = change_topic.read_again(
                self.settings, first, change_topic.end_offset(self.settings)
            )
            for records in new:
                is_marked = is_marked or any(mark in (value or b"") for _, value in records)
                self._records += records
            time.sleep(0.05)

    def follow(self, shop: Shop) -> dict[str, PoisonedRecordError]:
        """Feed all runners with all there is; returns why some stopped. These begin again."""
        self.await_topic(shop)
        stopped = {}
        for mode in ALL:
            one = self._runners.get(mode) or self._new(mode)
            new = [(at, value) for at, value in self._records if at >= one.tracker.next_offset]
            try:
                one.writer._committed_at = (
                    0.0  # quiet transactions, too, so that all say how far they are
                )
                one.follow(new)
                self._runners[mode] = one
            except PoisonedRecordError as error:
                stopped[mode] = error
                self._runners.pop(mode, None)
        return stopped

    def give_up(self, offset: int) -> None:
        """As `lockstep stream skip`; runners that begin later pass the record."""
        skip_records(self.settings, offset, offset)
        self.given_up |= {offset}

    def _new(self, mode: str) -> Follower:
        given_up = Modes.of(self.settings).given_up(mode)
        return follower_of(self._spark, self.settings, mode, given_up)

    def write_catalog(self) -> None:
        """As `lockstep source add` does once the tables have changed; runners start again."""
        with psycopg.connect(**self.settings.connection(Login.OWNER), autocommit=True) as database:
            catalog = read_database_catalog(database, SOURCE)
        file = self.settings.project / "include" / "sources" / SOURCE / "catalog.lock"
        file.write_text(write_catalog(catalog))
        self._runners.clear()

    def lock_result(self) -> None:
        """As `lockstep pipeline lock` does, for what the catalog's types make of the query."""
        plan = plan_named(self.settings.project, MANIFEST)
        file = self.settings.project / "include" / "sql" / MANIFEST / RESULT_FILE
        columns = result_columns(self._spark, plan)
        file.write_text(write_result(columns, MANIFEST, plan.version))

    def rebuild(self) -> None:
        """As `lockstep stream rebuild` of each mode: the table again, from the first record on."""
        for mode in StreamMode:
            shutil.rmtree(self.settings.table_uri(change_log_table(mode)))
        self._runners.clear()

    def orders(self, mode: str) -> dict[int, tuple]:
        """The orders that there are by the mode's change log; RACED if it marked them so itself."""
        uri = self.settings.table_uri(change_log_table(StreamMode(mode)))
        query = _STATE.format(key="order_id")
        return {
            row["order_id"]: RACED
            if row["is_raced"]
            else (
                row["order_time"],
                row["client_name"],
                row["table_name"],
                [(one["pizza"], one["price"]) for one in row["pizzas"]],
            )
            for row in run_query(query, {"log": open_table(uri)}).read_all().to_pylist()
        }

    def rows(self, dimension: str) -> set[tuple]:
        """The rows that there are by the history."""
        uri = self.settings.table_uri(SOURCE_HISTORY)
        query = _STATE.format(key='"table", row_key')
        found = run_query(query, {"log": open_table(uri)}).read_all().to_pylist()
        rows = [json.loads(one["row"]) for one in found if one["table"] == f"public.{dimension}"]
        return {
            tuple(
                Decimal(row[name]) if name == "price" else row[name] for name in COLUMNS[dimension]
            )
            for row in rows
        }


def disagreements(shop: Shop, followers: Followers) -> dict[str, tuple[object, object]]:
    """Where a table says something else than the database did: what it says, and what is right."""
    pairs: dict[str, tuple[object, object]] = {}
    for mode in StreamMode:
        found = followers.orders(mode)
        raced = {id_ for id_, row in found.items() if row == RACED and mode is StreamMode.LOOKUP}
        pairs[mode] = found, {id_: RACED if id_ in raced else o for id_, o in shop.orders.items()}
    for dimension in DIMENSION_TABLES:
        pairs[dimension] = followers.rows(dimension), shop.rows(dimension)
    return {where: pair for where, pair in pairs.items() if pair[0] != pair[1]}
