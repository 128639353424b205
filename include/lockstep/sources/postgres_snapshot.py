"""Reads the pizzeria's tables by JDBC, every partition of every table under one exported snapshot.

How the connections come to see the snapshot is in snapshot_jdbc.py.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from psycopg import sql

from lockstep.accounts import Role
from lockstep.cdc.cuts import ExportedSnapshot
from lockstep.model.window import Window
from lockstep.pizzeria import CLIENTS, ORDERS, PIZZAS, TABLE_ASSIGNMENT, TABLES
from lockstep.project import read_project_file
from lockstep.settings import Settings
from lockstep.sources.postgres import role_connection
from lockstep.sources.snapshot_jdbc import SnapshotJdbc
from lockstep.sources.window_slices import SlotCount, slot_length

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_READS = Path("include", "postgres", "batch_reads")
VIEW_READ = "view"


def count_orders(exported: ExportedSnapshot, window: Window) -> list[SlotCount]:
    """Orders in each filled slot of the window, in time order, as the snapshot sees them."""
    query = rendered("orders_by_slot", window, slot=sql.Literal(slot_length(window)))
    return [SlotCount(*row) for row in exported.connection.execute(query)]


class SnapshotReader:
    """DataFrames over PostgreSQL that all see one snapshot.

    The exporting transaction must stay open until the last partition has begun to read.
    """

    def __init__(
        self, spark: "SparkSession", settings: Settings, exported: ExportedSnapshot
    ) -> None:
        target = role_connection(settings, Role.BATCH_READER)
        self._jdbc = SnapshotJdbc(spark, target, exported, options={})

    def view(self, slices: list[Window]) -> "DataFrame":
        """order_id, order_time, client_name, table_name, pizzas (JSON text); a slice a task."""
        return self._read(VIEW_READ, slices)

    def tables(self, window: Window, slices: list[Window]) -> dict[str, "DataFrame"]:
        """The five tables by name: the window's orders, a slice a task, and what they refer to."""
        whole = [window]
        return {
            ORDERS: self._read(ORDERS, slices),
            TABLE_ASSIGNMENT: self._read(TABLE_ASSIGNMENT, whole),
            CLIENTS: self._read(CLIENTS, whole),
            TABLES: self._read(TABLES, whole),
            PIZZAS: self._read(PIZZAS, whole),
        }

    def _read(self, read: str, slices: list[Window]) -> "DataFrame":
        query = rendered(read, Window(slices[0].start, slices[-1].end))
        predicates = [_between(part) for part in slices] if len(slices) > 1 else ["true"]
        return self._jdbc.read(query, f"{read}_read", predicates)


def _between(part: Window) -> str:
    bounds = {"start": sql.Literal(part.start), "end": sql.Literal(part.end)}
    return sql.SQL("order_time >= {start} AND order_time < {end}").format(**bounds).as_string()


def rendered(read: str, window: Window, **values: sql.Composable) -> sql.Composed:
    """A query of include/postgres/batch_reads about the window."""
    text = read_project_file(_READS / f"{read}.sql")
    return sql.SQL(text).format(
        start=sql.Literal(window.start), end=sql.Literal(window.end), **values
    )
