"""Reads PostgreSQL by JDBC, every partition of every table under one exported snapshot.

A JDBC partition opens a connection of its own. Spark runs `sessionInitStatement` inside that
connection's transaction when a fetch size is set, so the statement below makes each of them see the
exporting transaction's snapshot, whenever it starts and whatever has been committed since.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from psycopg import sql

from lockstep.cdc.cuts import ExportedSnapshot
from lockstep.contracts import (
    CLIENTS,
    DATABASE,
    ORDERS,
    PIZZAS,
    TABLE_ASSIGNMENT,
    TABLES,
    Role,
    Window,
)
from lockstep.project import read_project_file
from lockstep.settings import Settings
from lockstep.sources.window_slices import SlotCount, slot_length

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_READS = Path("include", "postgres", "batch_reads")
FETCH_ROWS = 10_000
"""Rows of one round trip: about a megabyte of orders, which bounds a task's memory."""
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
        self._spark = spark
        self._url = (
            f"jdbc:postgresql://{settings.postgres_host}:{settings.postgres_port}/{DATABASE}"
        )
        snapshot = sql.Literal(exported.name).as_string()
        self._properties = {
            "driver": "org.postgresql.Driver",
            "user": str(Role.BATCH_READER),
            "password": settings.password(Role.BATCH_READER),
            "fetchsize": str(FETCH_ROWS),
            "ApplicationName": "lockstep hourly run",
            "sessionInitStatement": (
                "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY; "
                f"SET TRANSACTION SNAPSHOT {snapshot}"
            ),
        }

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
        query = rendered(read, Window(slices[0].start, slices[-1].end)).as_string()
        return self._spark.read.jdbc(
            self._url,
            f"({query}) AS {read}_read",
            predicates=[_between(part) for part in slices] if len(slices) > 1 else ["true"],
            properties=self._properties,
        )


def _between(part: Window) -> str:
    bounds = {"start": sql.Literal(part.start), "end": sql.Literal(part.end)}
    return sql.SQL("order_time >= {start} AND order_time < {end}").format(**bounds).as_string()


def rendered(read: str, window: Window, **values: sql.Composable) -> sql.Composed:
    """A query of include/postgres/batch_reads about the window."""
    text = read_project_file(_READS / f"{read}.sql")
    return sql.SQL(text).format(
        start=sql.Literal(window.start), end=sql.Literal(window.end), **values
    )
