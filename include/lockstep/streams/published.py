"""Modes `outbox` and `message`: a row of the result as the fact's own transaction published it."""

from collections.abc import Sequence

import pyarrow as pa

from lockstep.cdc.records import MESSAGES
from lockstep.pipeline.plan import Plan
from lockstep.streams.rows import published_columns
from lockstep.streams.sink import Enrichment
from lockstep.streams.table_rows import RowVersion, text_of


class PublishedEnrichment(Enrichment):
    """Everything is in the change itself; nothing is joined and no state is kept."""

    def __init__(self, plan: Plan, table: str) -> None:
        self._result = plan.result
        self.fact = text_of(plan.fact.name)
        self.wanted = frozenset({table})

    def enriched(self, changes: Sequence[RowVersion]) -> dict[str, pa.Array]:
        return published_columns(changes, self._result)


def outbox(plan: Plan) -> PublishedEnrichment:
    """Raises PipelineError when the pipeline has no outbox."""
    return PublishedEnrichment(plan, text_of(plan.outbox))


def message(plan: Plan) -> PublishedEnrichment:
    """Rows of the initial snapshot are missing: the log had their messages before its start."""
    return PublishedEnrichment(plan, MESSAGES)
