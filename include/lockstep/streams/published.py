"""Modes `outbox` and `message`: the enriched order as its own transaction published it."""

from collections.abc import Sequence

import pyarrow as pa

from lockstep.cdc.records import MESSAGES
from lockstep.pizzeria import OUTBOX
from lockstep.streams.fold import OrderChange
from lockstep.streams.rows import published_columns
from lockstep.streams.sink import Enrichment


class PublishedEnrichment(Enrichment):
    """Everything is in the change itself; nothing is joined and no state is kept."""

    def __init__(self, table: str) -> None:
        self.reports_orders = table
        self.wanted = frozenset({table})

    def enriched(self, changes: Sequence[OrderChange]) -> dict[str, pa.Array]:
        return published_columns(changes)


def outbox() -> PublishedEnrichment:
    return PublishedEnrichment(OUTBOX)


def message() -> PublishedEnrichment:
    """Orders of the initial snapshot are missing: the log had their messages before its start."""
    return PublishedEnrichment(MESSAGES)
