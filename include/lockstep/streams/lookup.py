"""Mode `lookup`: each changed order looked up in the database's view, as it is by then.

What may have changed between the order's commit and the look-up is marked as raced; that is the
price of this mode, and why the others exist.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from lockstep.contracts import ORDERS
from lockstep.settings import Settings
from lockstep.sources.order_lookup import look_up_orders
from lockstep.streams.fold import OrderChange
from lockstep.streams.sink import Enrichment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class LookupEnrichment(Enrichment):
    """Only the orders' ids and commits are taken from the change topic."""

    orders_told_by = ORDERS
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
        return {name: found[name].combine_chunks() for name in found.column_names}
