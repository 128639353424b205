"""Mode `lookup`: each changed row looked up in the database's view, as it is by then.

What may have changed between the row's commit and the look-up is marked as raced; that is the
price of this mode, and why the others exist. What proves or disproves a marked row is kept with it:
the snapshot that the look-up read, and what the fact's row refers to by its change in the topic,
which the look-up has no part in.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from lockstep.pipeline.delta_types import arrow_type
from lockstep.pipeline.plan import Plan
from lockstep.pizzeria import LOOK_UP, LOOK_UP_REFERS_TO, LOOK_UP_TYPE
from lockstep.settings import Settings
from lockstep.sources.order_lookup import look_up_rows
from lockstep.streams.rows import key_columns
from lockstep.streams.sink import Enrichment
from lockstep.streams.table_rows import RowVersion, text_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class LookupEnrichment(Enrichment):
    """Names, prices and times are the look-up's; the change topic says only which rows to ask."""

    def __init__(self, spark: "SparkSession", settings: Settings, plan: Plan) -> None:
        self._spark = spark
        self._settings = settings
        self._result = plan.result
        self._places = [plan.fact.columns.index(name) for name in LOOK_UP_REFERS_TO]
        self.fact = text_of(plan.fact.name)
        self.wanted = frozenset({self.fact})

    def enriched(self, changes: Sequence[RowVersion]) -> dict[str, pa.Array]:
        asked = pa.table(
            {
                **key_columns(changes, self._result.key, self._result.schema),
                "op": pa.array([c.op for c in changes], pa.string()),
                "tx_id": pa.array([c.tx_id for c in changes], pa.int64()),
                "committed_at": pa.array([c.committed_us for c in changes], pa.int64()).cast(
                    pa.timestamp("us", "UTC")
                ),
            }
        )
        found = look_up_rows(self._spark, self._settings, self._result, asked)
        columns = {name: found[name].combine_chunks() for name in found.column_names}
        look_up = self._look_up(changes, columns.pop("snapshot"), columns.pop("wal_lsn"))
        return {**columns, LOOK_UP: look_up}

    def _look_up(
        self, changes: Sequence[RowVersion], snapshot: pa.Array, wal_lsn: pa.Array
    ) -> pa.StructArray:
        """The column look_up; null for a delete, which has no row."""
        fields = list(arrow_type(LOOK_UP_TYPE))
        rows = [change.row.values for change in changes]
        refers_to = [
            pa.array([row and row[place] for row in rows], field.type)
            for place, field in zip(self._places, fields, strict=False)
        ]
        return pa.StructArray.from_arrays(
            [*refers_to, snapshot, wal_lsn],
            fields=fields,
            mask=pa.array([row is None for row in rows], pa.bool_()),
        )
