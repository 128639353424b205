"""Notes the records that an operator gave up; sources/given_up.py reads them.

One Delta table for all streams of a source, appended to under its writer's lock. Earlier versions
wrote changes of tables that they did not know there as well.
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime

import pyarrow as pa
from deltalake import write_deltalake

from lockstep.pipeline import names
from lockstep.pipeline.delta_types import arrow_schema
from lockstep.settings import Settings
from lockstep.sinks.local_lakehouse import sole_writer
from lockstep.sources.given_up import GIVEN_UP, QUARANTINED_COLUMNS, GivenUpRecords, topic_now

PATIENCE_SECONDS = 30.0
"""For the table's other writers."""


class Quarantine:
    """Where records of one change topic are noted: its source's table."""

    def __init__(self, settings: Settings, by: str, topic: str) -> None:
        self._settings = settings
        self._by = by
        self._topic = topic
        self._table = names.quarantine_path(names.source_of(topic))

    def give_up(self, lost: Sequence[GivenUpRecords]) -> None:
        """Note, in one commit, that streams pass these records of the topic as it is now.

        Another topic of that name has other records, of which it says nothing. Raises also
        StreamError, when Kafka does not answer.
        """
        topic = topic_now(self._settings, self._topic)
        self._append([self._given_up_row(topic, one) for one in lost])

    def _given_up_row(self, topic: str, lost: GivenUpRecords) -> dict:
        transactions = [
            {
                "tx_id": one.tx_id,
                "commit_lsn": one.commit_lsn,
                "committed_at": one.committed_at and one.committed_at.isoformat(),
            }
            for one in lost.transactions
        ]
        return {
            "stream": self._by,
            "topic": topic,
            "partition": 0,
            "offset": lost.offsets.first,
            "decision": GIVEN_UP,
            "reason": lost.reason,
            "value": None if lost.value is None else lost.value.decode(errors="replace"),
            "decided_at": datetime.now(UTC),
            "last_offset": lost.offsets.last,
            "records": lost.records,
            "table": lost.table,
            "hour": lost.hour,
            "is_order_hour": lost.is_order_hour,
            "committed_first": lost.committed_first,
            "committed_last": lost.committed_last,
            "transactions": json.dumps(transactions),
            "transaction_count": lost.transaction_count,
        }

    def _append(self, rows: list[dict]) -> None:
        """Add rows; a table of an earlier version gets the columns that it lacks."""
        with sole_writer(self._settings, self._table, PATIENCE_SECONDS):
            write_deltalake(
                self._settings.table_uri(self._table),
                pa.Table.from_pylist(rows, schema=arrow_schema(QUARANTINED_COLUMNS)),
                mode="append",
                schema_mode="merge",
            )
