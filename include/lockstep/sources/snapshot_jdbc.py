"""JDBC reads of PostgreSQL by Spark, every partition of every read under one exported snapshot.

A JDBC partition opens a connection of its own. Spark runs `sessionInitStatement` inside that
connection's transaction when a fetch size is set, so the statement below makes each of them see the
exporting transaction's snapshot, whenever it starts and whatever has been committed since.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

from psycopg import sql

from lockstep.cdc.cuts import ExportedSnapshot
from lockstep.model.window import Window
from lockstep.sources.postgres import RoleConnection

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FETCH_ROWS = 10_000
"""Rows of one round trip: about a megabyte of orders, which bounds a task's memory."""


class SnapshotJdbc:
    """DataFrames over the database of one role, which all see one snapshot.

    The exporting transaction must stay open until the last partition has begun to read.
    """

    def __init__(
        self,
        spark: "SparkSession",
        target: RoleConnection,
        exported: ExportedSnapshot,
        options: Mapping[str, str],
    ) -> None:
        """options: of Spark's JDBC reads, in addition to those that the snapshot needs."""
        self._spark = spark
        database = target.parameters
        self._url = (
            f"jdbc:postgresql://{database['host']}:{database['port']}/"
            f"{quote(str(database['dbname']), safe='')}"
        )
        snapshot = sql.Literal(exported.name).as_string()
        self._properties = {
            "driver": "org.postgresql.Driver",
            "user": target.role,
            "password": str(database["password"]),
            "fetchsize": str(FETCH_ROWS),
            "ApplicationName": "lockstep hourly run",
            "sessionInitStatement": (
                "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY; "
                f"SET TRANSACTION SNAPSHOT {snapshot}; SET LOCAL TIME ZONE 'UTC'"
            ),
            **options,
        }

    def read(self, query: sql.Composable, name: str, predicates: Sequence[str]) -> "DataFrame":
        """The rows of a query, whose name is `name` there; a partition for each predicate."""
        return self._spark.read.jdbc(
            self._url,
            f"({query.as_string()}) AS {name}",
            predicates=list(predicates),
            properties=self._properties,
        )


def between(column: str, part: Window) -> str:
    """The predicate of a partition that reads a part of a window."""
    condition = sql.SQL("{column} >= {start} AND {column} < {end}").format(
        column=sql.Identifier(column), start=sql.Literal(part.start), end=sql.Literal(part.end)
    )
    return condition.as_string()
