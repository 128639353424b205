"""Records put aside: those of tables that no mode knows, and those an operator gave up.

Here they are written; sources/given_up.py reads what was given up. One Delta table for all streams,
appended to under its writer's lock; what is put aside twice (by two streams, or by a micro-batch
run again) is there twice, with the same offset.
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime

import pyarrow as pa
from deltalake import write_deltalake

from lockstep.faults import Point, reach
from lockstep.pipeline import names
from lockstep.pipeline.delta_types import arrow_schema
from lockstep.settings import Settings
from lockstep.sinks.local_lakehouse import sole_writer
from lockstep.sources.given_up import GIVEN_UP, QUARANTINED_COLUMNS, GivenUpRecords, topic_now

PUT_ASIDE = "put aside"
PATIENCE_SECONDS = 30.0
"""For the table's other writers: all streams meet the same record within moments."""


class Quarantine:
    """Where one stream, or an operator, puts records of one change topic: its source's table."""

    def __init__(self, settings: Settings, by: str, topic: str) -> None:
        self._settings = settings
        self._by = by
        self._topic = topic
        self._table = names.quarantine_path(names.source_of(topic))
        self._unwritten: list[dict] = []

    def put(self, offset: int, reason: str, value: bytes | None) -> None:
        """Put one record of the change topic aside; it is there after the next `write`."""
        self._unwritten.append(self._row(self._topic, offset, reason, value, PUT_ASIDE))

    def write(self) -> None:
        """Write what was put aside, in one commit. Raises LakehouseError, WriterBusyError."""
        if self._unwritten:
            reach(Point.BEFORE_QUARANTINE)
            self._append(self._unwritten)
            reach(Point.AFTER_QUARANTINE)
            self._unwritten = []

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
            **self._row(topic, lost.offsets.first, lost.reason, lost.value, GIVEN_UP),
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

    def _row(
        self, topic: str, offset: int, reason: str, value: bytes | None, decision: str
    ) -> dict:
        return {
            "stream": self._by,
            "topic": topic,
            "partition": 0,
            "offset": offset,
            "decision": decision,
            "reason": reason,
            "value": None if value is None else value.decode(errors="replace"),
            "decided_at": datetime.now(UTC),
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
