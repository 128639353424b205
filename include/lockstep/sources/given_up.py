"""What operators gave up of the change topic, as the quarantine's table says. Only reads.

`lockstep stream skip` writes it (streams/quarantine.py); streams read it to pass these records,
comparisons to name them.
"""

import json
from dataclasses import dataclass
from datetime import datetime

from deltalake import DeltaTable

from lockstep.cdc.transactions import OffsetRange
from lockstep.settings import Settings
from lockstep.sources.change_topic import topic_id
from lockstep.sources.delta import open_table, run_query

QUARANTINED_COLUMNS = {
    "stream": "string",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "decision": "string",
    "reason": "string",
    "value": "string",
    "decided_at": "timestamp",
    "last_offset": "bigint",
    "records": "bigint",
    "table": "string",
    "hour": "timestamp",
    "is_order_hour": "boolean",
    "committed_first": "timestamp",
    "committed_last": "timestamp",
    "transactions": "string",
    "transaction_count": "bigint",
}
"""Of what an operator gave up a row for each table and hour (GivenUpRecords says what is in its
columns from last_offset on); reason and value are the first record's, transactions is JSON. Rows of
another decision are of earlier versions, whose streams put records aside.
"""
GIVEN_UP = "given up"
"""The decision of the rows that are meant."""


@dataclass(frozen=True)
class GivenUpTransaction:
    """A transaction that lacks a record; commit_lsn None when its END was not found."""

    tx_id: int
    commit_lsn: int | None
    committed_at: datetime | None


@dataclass(frozen=True)
class GivenUpRecords:
    """Records given up together: of one table, and of one hour.

    offsets: of the first and the last; records between them that can be read are not given up.
    table: None when the record does not even say that.
    hour: the beginning of the hour of the orders' time if is_order_hour, else of their commits;
        None when neither is known.
    committed_first, committed_last: bounds of the commits' times; None when they are not known.
    transactions: the first thousand; transaction_count: of all.
    reason: why the first one cannot be read; value: its content.
    """

    offsets: OffsetRange
    records: int
    table: str | None
    hour: datetime | None
    is_order_hour: bool
    committed_first: datetime | None
    committed_last: datetime | None
    transactions: tuple[GivenUpTransaction, ...]
    transaction_count: int
    reason: str
    value: bytes | None = None


def topic_now(settings: Settings, topic: str) -> str:
    """The topic with its id: another one of that name has other records. Raises StreamError."""
    return f"{topic} {topic_id(settings, topic)}"


def given_up_records(settings: Settings) -> list[GivenUpRecords]:
    """What was given up of the topic that there is now, in the order of its offsets.

    Raises StreamError when something was given up and Kafka does not say which topic it has.
    """
    uri = settings.table_uri(settings.names.quarantine)
    if not DeltaTable.is_deltatable(uri):
        return []
    query = f"SELECT * FROM records WHERE decision = '{GIVEN_UP}' ORDER BY \"offset\""  # noqa: S608 - a constant
    rows = run_query(query, {"records": open_table(uri)}).read_all().to_pylist()
    topic = topic_now(settings, settings.names.change_topic) if rows else None
    return [_records_of(row) for row in rows if row["topic"] == topic]


def given_up_ranges(settings: Settings) -> list[OffsetRange]:
    """The offsets from the first to the last of each; those that overlap are one range.

    Raises StreamError as given_up_records does.
    """
    merged: list[OffsetRange] = []
    for one in given_up_records(settings):
        if merged and one.offsets.first <= merged[-1].last + 1:
            last = max(merged[-1].last, one.offsets.last)
            merged[-1] = OffsetRange(merged[-1].first, last)
        else:
            merged.append(one.offsets)
    return merged


def _records_of(row: dict) -> GivenUpRecords:
    """A row of the table; an earlier version gave up one record at a time, and noted less of it."""
    first, last = row["offset"], row.get("last_offset")
    transactions = json.loads(row.get("transactions") or "[]")
    return GivenUpRecords(
        offsets=OffsetRange(first, first if last is None else last),
        records=row.get("records") or 1,
        table=row.get("table"),
        hour=row.get("hour"),
        is_order_hour=bool(row.get("is_order_hour")),
        committed_first=row.get("committed_first"),
        committed_last=row.get("committed_last"),
        transactions=tuple(map(_transaction_of, transactions)),
        transaction_count=row.get("transaction_count") or 0,
        reason=row["reason"],
    )


def _transaction_of(found: dict) -> GivenUpTransaction:
    at = found["committed_at"]
    return GivenUpTransaction(
        found["tx_id"], found["commit_lsn"], None if at is None else datetime.fromisoformat(at)
    )
