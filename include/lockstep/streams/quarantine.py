"""Records put aside: those of tables that nobody knows, and those an operator gave up.

One Delta table for all streams, appended to under its writer's lock; what is put aside twice (a
micro-batch run again) is there twice, with the same offset.
"""

from datetime import UTC, datetime

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from lockstep.contracts import CHANGE_TOPIC, QUARANTINED_COLUMNS, QUARANTINED_RECORDS
from lockstep.settings import Settings
from lockstep.sinks.append_log import arrow_schema
from lockstep.sinks.local_lakehouse import sole_writer
from lockstep.sources.delta import open_table, run_query

GIVEN_UP = "given up"
PUT_ASIDE = "put aside"


class Quarantine:
    """Where one stream, or an operator, puts records."""

    def __init__(self, settings: Settings, by: str) -> None:
        self._settings = settings
        self._by = by

    def put(self, offset: int, reason: str, value: bytes | None, decision: str = PUT_ASIDE) -> None:
        """Note one record of the change topic. Raises LakehouseError, WriterBusyError."""
        row = {
            "stream": self._by,
            "topic": CHANGE_TOPIC,
            "partition": 0,
            "offset": offset,
            "decision": decision,
            "reason": reason,
            "value": None if value is None else value.decode(errors="replace"),
            "decided_at": datetime.now(UTC),
        }
        with sole_writer(self._settings, QUARANTINED_RECORDS):
            write_deltalake(
                self._settings.table_uri(QUARANTINED_RECORDS),
                pa.Table.from_pylist([row], schema=arrow_schema(QUARANTINED_COLUMNS)),
                mode="append",
            )


def given_up_offsets(settings: Settings) -> frozenset[int]:
    """The records that operators gave up, by `lockstep stream skip`."""
    uri = settings.table_uri(QUARANTINED_RECORDS)
    if not DeltaTable.is_deltatable(uri):
        return frozenset()
    query = f"SELECT \"offset\" FROM records WHERE decision = '{GIVEN_UP}'"  # noqa: S608 - a constant
    found = run_query(query, {"records": open_table(uri)}).read_all()
    return frozenset(found["offset"].to_pylist())
