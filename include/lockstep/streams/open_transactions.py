"""Mode `transaction`: changes of a transaction that is under way wait in Spark's state store.

The records of a transaction whose END has not come yet are kept in RocksDB, part of the query's
checkpoint, and go on to the driver together with their END; the driver sees whether they are all
there and puts the transactions into commit order. What goes on at once, so that the driver knows
what is under way: the first record of each transaction, every END, and what belongs to no
transaction. A transaction with more than HELD_RECORDS_MAX records is not kept: the driver counts
it, and reads it from the topic again.

No timers: with processing-time timers Spark runs empty micro-batches without pause (five a second,
measured), and with event-time ones it drops what comes late. The driver tells the age.
"""

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from lockstep.sources.python_worker import spare_garbage_collection

HELD_RECORDS_MAX = 50_000
"""Records of one transaction kept in the state store: some 50 MB."""
PASSING = -1
"""Instead of the number of records held: this transaction's records go on as they come."""
_HELD = (
    "records array<struct<offset: bigint, value: binary, total_order: bigint, expected: bigint>>"
)
_GOES_ON = Row("offset", "value")
_ENVELOPE = (
    "op string, source struct<txId: bigint>, transaction struct<total_order: bigint>, "
    "status string, id string, event_count bigint"
)
"""What of an event says which transaction it is of, and how many changes that has."""


def whole_transactions(records: DataFrame) -> DataFrame:
    """The records (offset, value), each transaction's together.

    Some come twice, and some after others of higher offsets.
    """
    event = F.from_json(F.col("value").cast("string"), _ENVELOPE)
    is_of_snapshot = F.coalesce(event["op"] == "r", F.lit(False))
    boundary = F.when(event["status"].isNotNull(), F.substring_index(event["id"], ":", 1))
    keyed = records.select(
        F.lit(0).alias("partition"),
        "offset",
        "value",
        F.when(~is_of_snapshot, F.coalesce(event["source"]["txId"].cast("string"), boundary)).alias(
            "tx"
        ),
        event["transaction"]["total_order"].alias("total_order"),
        F.when(event["status"] == "END", event["event_count"]).alias("expected"),
    )
    return keyed.groupBy("partition").transformWithState(
        OpenTransactions(), "offset bigint, value binary", outputMode="Append", timeMode="None"
    )


class HeldRecord(NamedTuple):
    """What is kept of a record; expected: how many changes an END says the transaction has."""

    offset: int
    value: bytes | None
    total_order: int | None
    expected: int | None


class OpenTransactions(StatefulProcessor):
    """Keeps the records of transactions until their ENDs; called once for each micro-batch.

    State, under one key, the topic's only partition: of each open transaction how many records are
    held, or PASSING, and in how many chunks; and these, a chunk for each micro-batch. With a key
    for each transaction Spark asks its store about each, and most are whole and never in it: a
    backlog of 30,000 took 49 s, and 30 s so.
    """

    def init(self, handle: StatefulProcessorHandle) -> None:
        spare_garbage_collection()
        self._open = handle.getMapState("open", "tx string", "records bigint, chunks bigint")
        self._held = handle.getMapState("held", "tx string, chunk bigint", _HELD)

    def handleInputRows(  # noqa: N802
        self,
        key: tuple[int],
        rows: Iterator[Row],
        timerValues: object,  # noqa: N803
    ) -> Iterator[Row]:
        known = {tx: (records, chunks) for (tx,), (records, chunks) in self._open.iterator()}
        for tx, new in _by_transaction(rows).items():
            passed = new if tx is None else self._passed(tx, new, *known.get(tx, (0, 0)))
            yield from (_GOES_ON(record.offset, record.value) for record in passed)

    def close(self) -> None:
        pass

    def _passed(
        self, tx: str, new: list[HeldRecord], held: int, chunks: int
    ) -> Sequence[HeldRecord]:
        """The records of one transaction that go on now; the others are kept."""
        if held == PASSING:
            if is_whole(new):
                self._open.removeKey((tx,))
            return new
        if not held and is_whole(new):
            return new
        has_ended = any(record.expected is not None for record in new)
        if not has_ended and held + len(new) <= HELD_RECORDS_MAX:
            self._held.updateValue((tx, chunks), (list(map(tuple, new)),))
            self._open.updateValue((tx,), (held + len(new), chunks + 1))
            return [] if held else new[:1]
        together = [*self._taken(tx, chunks), *new]
        if not is_whole(together):  # what is missing, or too much to keep, goes on as it comes
            self._open.updateValue((tx,), (PASSING, 0))
        elif held:
            self._open.removeKey((tx,))
        return together

    def _taken(self, tx: str, chunks: int) -> Iterator[HeldRecord]:
        for chunk in range(chunks):
            (records,) = self._held.getValue((tx, chunk))
            self._held.removeKey((tx, chunk))
            yield from map(HeldRecord._make, records)


def _by_transaction(rows: Iterator[Row]) -> dict[str | None, list[HeldRecord]]:
    """The records of each transaction id, in the order of their offsets."""
    found: dict[str | None, list[HeldRecord]] = {}
    for row in rows:
        record = HeldRecord(*(row[name] for name in HeldRecord._fields))
        found.setdefault(row["tx"], []).append(record)
    for records in found.values():
        records.sort(key=attrgetter("offset"))
    return found


def is_whole(records: Sequence[HeldRecord]) -> bool:
    """Whether an END is among the records, and as many distinct changes as it says."""
    counts = [record.expected for record in records if record.expected is not None]
    if not counts:
        return False
    numbers = {record.total_order for record in records if record.total_order is not None}
    return len(numbers) >= max(counts)
