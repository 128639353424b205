"""Mode `lookup`: each changed order looked up in the database's view, as it is by then.

What may have changed between the order's commit and the look-up is marked as raced; that is the
price of this mode, and why the others exist. What proves or disproves a marked row is kept with it:
the snapshot that the look-up read, and what the order refers to by its change in the topic, which
the look-up has no part in.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from lockstep.cdc.order_records import OrderRow
from lockstep.pizzeria import ORDERS
from lockstep.settings import Settings
from lockstep.sources.order_lookup import look_up_orders
from lockstep.streams.fold import OrderChange
from lockstep.streams.rows import LOOK_UP_SCHEMA
from lockstep.streams.sink import Enrichment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class LookupEnrichment(Enrichment):
    """Names, prices and times are the look-up's; the change topic says only which orders to ask."""

    reports_orders = ORDERS
    wanted = frozenset({ORDERS})

    def __init__(self, spark: "SparkSession", settings: Settings) -> None:
        self._spark = spark
        self._settings = settings

    def enriched(self, changes: Sequence[OrderChange]) -> dict[str, pa.Array]:
        asked = pa.table(
            {
                "order_id": pa.array([c.order_id for c in changes], pa.int64()),
                "op": pa.array([c.op for c in changes], pa.string()),
                "tx_id": pa.array([c.tx_id for c in changes], pa.int64()),
                "committed_at": pa.array([c.committed_us for c in changes], pa.int64()).cast(
                    pa.timestamp("us", "UTC")
                ),
            }
        )
        found = look_up_orders(self._spark, self._settings, asked)
        columns = {name: found[name].combine_chunks() for name in found.column_names}
        look_up = _look_up(changes, columns.pop("snapshot"), columns.pop("wal_lsn"))
        return {**columns, "look_up": look_up}


def _look_up(
    changes: Sequence[OrderChange], snapshot: pa.Array, wal_lsn: pa.Array
) -> pa.StructArray:
    """The column look_up; null for a delete, which has no row."""
    fields = list(LOOK_UP_SCHEMA.field("look_up").type)
    rows = [c.row if isinstance(c.row, OrderRow) else None for c in changes]
    assignments = pa.array([row and row.table_assignment_id for row in rows], fields[0].type)
    pizza_ids = pa.array([row and row.pizzas for row in rows], fields[1].type)
    return pa.StructArray.from_arrays(
        [assignments, pizza_ids, snapshot, wal_lsn],
        fields=fields,
        mask=pa.array([row is None for row in rows], pa.bool_()),
    )
