"""The columns of a relation as PostgreSQL sends them, and as Spark receives them.

How one column is sent and received is its own; which rows are read is the caller's.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from psycopg import sql

from lockstep.pipeline.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class SentColumn(Protocol):
    """A column that PostgreSQL sends as one expression, and of which Spark makes the value."""

    @property
    def name(self) -> str: ...

    @property
    def sent(self) -> sql.Composable: ...

    def received(self, sent: str) -> str: ...


def sent_query(
    relation: sql.Composable,
    columns: Sequence[SentColumn],
    rows: sql.Composable,
    more: Sequence[sql.Composable] = (),
) -> sql.Composable:
    """The relation's columns as they are sent, then `more` expressions, where `rows` holds."""
    sent = (
        sql.SQL("{} AS {}").format(one.sent, sql.Identifier(_sent_name(place)))
        for place, one in enumerate(columns)
    )
    return sql.SQL("SELECT {columns} FROM {relation} WHERE {rows}").format(
        columns=sql.SQL(", ").join([*sent, *more]), relation=relation, rows=rows
    )


def received_rows(
    sent: "DataFrame", columns: Sequence[SentColumn], kept: Sequence[str] = ()
) -> "DataFrame":
    """The columns' values by their names, of what a sent_query of them gave.

    kept: columns of its `more` expressions, which are taken as they are. In Spark's SQL, since
    each call of a function of pyspark asks the JVM several times.
    """
    received = (
        f"{one.received(_sent_name(place))} AS {quoted(one.name)}"
        for place, one in enumerate(columns)
    )
    return sent.selectExpr(*received, *kept)


def _sent_name(place: int) -> str:
    """By the column's place: Spark quotes any name, but escapes none."""
    return f"c{place}"
