"""Mode `lookup`: each changed row looked up in the database's view, as it is by then.

What may have changed between the row's commit and the look-up is marked as raced; that is the
price of this mode, and why the others exist. What proves or disproves a marked row is kept with it:
the snapshot that the look-up read.
"""

from collections.abc import Callable, Sequence

import pyarrow as pa

from lockstep.pipeline.delta_types import arrow_type
from lockstep.pipeline.plan import Plan
from lockstep.pipeline.result_tables import LOOK_UP
from lockstep.sources.row_lookup import MOMENT
from lockstep.streams.rows import key_columns
from lockstep.streams.sink import Enrichment
from lockstep.streams.table_rows import RowVersion, text_of


class LookupEnrichment(Enrichment):
    """The values are the look-up's; the change topic says only which rows to ask for."""

    def __init__(self, plan: Plan, look_up: Callable[[pa.Table], pa.Table]) -> None:
        """look_up: as RowLookup.rows."""
        self._look_up = look_up
        self._result = plan.result
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
        found = self._look_up(asked)
        columns = {name: found[name].combine_chunks() for name in found.column_names}
        moments = [columns.pop(name) for name in MOMENT]
        return {**columns, **_look_up(changes, moments)}


def _look_up(changes: Sequence[RowVersion], moments: Sequence[pa.Array]) -> dict[str, pa.Array]:
    """The column that keeps a look-up's moment; null for a delete, which was not looked up."""
    [(name, kind)] = LOOK_UP.items()
    is_deleted = pa.array([change.row.values is None for change in changes], pa.bool_())
    fields = list(arrow_type(kind))
    return {name: pa.StructArray.from_arrays(moments, fields=fields, mask=is_deleted)}
