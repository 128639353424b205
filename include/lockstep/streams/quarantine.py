"""Records put aside: those of tables that nobody knows, and those an operator gave up.

One Delta table for all streams, appended to under its writer's lock; what is put aside twice (by
two streams, or by a micro-batch run again) is there twice, with the same offset.
"""

from datetime import UTC, datetime

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from lockstep.contracts import CHANGE_TOPIC, QUARANTINED_COLUMNS, QUARANTINED_RECORDS
from lockstep.settings import Settings
from lockstep.sinks.append_log import arrow_schema
from lockstep.sinks.local_lakehouse import sole_writer
from lockstep.sources.change_topic import topic_id
from lockstep.sources.delta import open_table, run_query

GIVEN_UP = "given up"
PUT_ASIDE = "put aside"
PATIENCE_SECONDS = 30.0
"""For the table's other writers: all streams meet the same record within moments."""


class Quarantine:
    """Where one stream, or an operator, puts records."""

    def __init__(self, settings: Settings, by: str) -> None:
        self._settings = settings
        self._by = by
        self._unwritten: list[dict] = []

    def put(self, offset: int, reason: str, value: bytes | None) -> None:
        """Put one record of the change topic aside; it is there after the next `write`."""
        self._unwritten.append(self._row(CHANGE_TOPIC, offset, reason, value, PUT_ASIDE))

    def write(self) -> None:
        """Write what was put aside, in one commit. Raises LakehouseError, WriterBusyError."""
        if self._unwritten:
            self._append(self._unwritten)
            self._unwritten = []

    def give_up(self, offset: int, reason: str, value: bytes | None) -> None:
        """Note that streams shall pass this record of the topic as it is now.

        Another topic of that name has other records, of which it says nothing. Raises also
        StreamError, when Kafka does not answer.
        """
        self._append([self._row(_topic_now(self._settings), offset, reason, value, GIVEN_UP)])

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
        with sole_writer(self._settings, QUARANTINED_RECORDS, PATIENCE_SECONDS):
            write_deltalake(
                self._settings.table_uri(QUARANTINED_RECORDS),
                pa.Table.from_pylist(rows, schema=arrow_schema(QUARANTINED_COLUMNS)),
                mode="append",
            )


def given_up_offsets(settings: Settings) -> frozenset[int]:
    """The records of the topic that operators gave up, by `lockstep stream skip`.

    Raises StreamError when there are such and Kafka does not say which topic it has.
    """
    uri = settings.table_uri(QUARANTINED_RECORDS)
    if not DeltaTable.is_deltatable(uri):
        return frozenset()
    query = f"SELECT topic, \"offset\" FROM records WHERE decision = '{GIVEN_UP}'"  # noqa: S608 - a constant
    found = run_query(query, {"records": open_table(uri)}).read_all().to_pylist()
    topic = _topic_now(settings) if found else None
    return frozenset(one["offset"] for one in found if one["topic"] == topic)


def _topic_now(settings: Settings) -> str:
    return f"{CHANGE_TOPIC} {topic_id(settings)}"
