"""How many rows PostgreSQL has in each slot of a window: where the window is cut into slices."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from lockstep.model.window import Window
from lockstep.sources.window_slices import SlotCount, slot_length

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class CountedRows:
    """Rows that Spark is to read. count: how many there are in the snapshot; None if not known."""

    rows: "DataFrame"
    count: int | None


def count_slots(
    connection: psycopg.Connection,
    window: Window,
    relation: sql.Composable,
    instant: sql.Composable,
    inside: sql.Composable,
) -> list[SlotCount]:
    """The relation's rows in each filled slot of the window, in time order.

    instant: a row's time, a `timestamp with time zone`. inside: the condition of the window.
    """
    query = sql.SQL(
        "SELECT date_bin({slot}, {instant}, {start}) AS slot_start, count(*) FROM {relation} "
        "WHERE {inside} GROUP BY slot_start ORDER BY slot_start"
    ).format(
        slot=sql.Literal(slot_length(window)),
        instant=instant,
        start=sql.Literal(window.start),
        relation=relation,
        inside=inside,
    )
    return [SlotCount(*row) for row in connection.execute(query)]
