"""Mode `transaction`: changes of a transaction that is under way wait in Spark's state store.

The records of a transaction whose END has not come yet are kept in RocksDB, part of the query's
checkpoint, and go on to the driver together with their END; the driver sees whether they are all
there and puts the transactions into commit order. What goes on at once, so that the driver knows
what is under way: the first record of each transaction, every END, and what belongs to no
transaction. A transaction with more than HELD_RECORDS_MAX records is not kept: the driver counts
it, and reads it from the topic again.

Spark hands a Python processor its rows one by one, cell by cell, which took longer than all else
that is done with a record. So a row has many records: their offsets and their values on the way in
(java/lockstep/RecordPacks.java), an Arrow stream as bytes on the way out.

No timers: with processing-time timers Spark runs empty micro-batches without pause (five a second,
measured), and with event-time ones it drops what comes late. The driver reports the age.
"""

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from lockstep.pipeline.arrow_stream import from_bytes, to_bytes
from lockstep.sources.python_worker import spare_garbage_collection

HELD_RECORDS_MAX = 50_000
"""Records of one transaction kept in the state store: some 50 MB."""
PACKED_RECORDS_MAX = 10_000
"""Records of one row that goes to Python: some 10 MB."""
BEGIN = 0
"""Instead of the number of a change."""
PASSING = -1
"""Instead of the number of records held: this transaction's records go on as they come."""
_HELD = (
    "records array<struct<offset: bigint, value: binary, total_order: bigint, expected: bigint>>"
)
_RECORDS = pa.schema({"offset": pa.int64(), "value": pa.binary()})
_GOES_ON = Row("records")


class HeldRecord(NamedTuple):
    """What is kept of a record.

    total_order: the change's number in its transaction, from 1 on; BEGIN of a BEGIN, None of an
    END. expected: how many changes an END says the transaction has.
    """

    offset: int
    value: bytes | None
    total_order: int | None
    expected: int | None


def whole_transactions(records: DataFrame) -> DataFrame:
    """The records (offset, value), each transaction's together, in the form that `unpacked` reads.

    Some come twice, and some after others of higher offsets.
    """
    spark = records.sparkSession
    packs = spark._jvm.lockstep.RecordPacks.of(
        records.select("offset", "value")._jdf, PACKED_RECORDS_MAX
    )
    # In one partition, as the state, so that Spark does not exchange them between two stages.
    keyed = DataFrame(packs, spark).coalesce(1)
    return keyed.groupBy("partition").transformWithState(
        OpenTransactions(), "records binary", outputMode="Append", timeMode="None"
    )


def unpacked(rows: pa.Table) -> pa.Table:
    """The columns offset and value of the rows of `whole_transactions`."""
    tables = [from_bytes(one) for one in rows["records"].to_pylist()]
    return pa.concat_tables([_RECORDS.empty_table(), *tables])


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
        goes_on: list[HeldRecord] = []
        for tx, new in _by_transaction(rows).items():
            goes_on += new if tx is None else self._passed(tx, new, *known.get(tx, (0, 0)))
        if goes_on:
            offsets = [record.offset for record in goes_on]
            values = [record.value for record in goes_on]
            yield _GOES_ON(to_bytes(pa.table([offsets, values], schema=_RECORDS)))

    def close(self) -> None:
        pass

    def _passed(
        self, tx: str, new: list[HeldRecord], held: int, chunks: int
    ) -> Sequence[HeldRecord]:
        """The records of one transaction that go on now; the others are kept.

        A BEGIN starts the transaction from the beginning: what is held of it is dropped. Only an
        END of before goes on, which keeps those behind it from being released.
        """
        if held == PASSING:
            if is_whole(new):
                self._open.removeKey((tx,))
            return new
        begin = _last_begin(new)
        if begin is None:
            return self._passed_since_begin(tx, new, held, chunks)
        for _ in self._taken(tx, chunks):
            pass
        if held:
            self._open.removeKey((tx,))
        ends = [record for record in new[:begin] if record.expected is not None]
        return [*ends, *self._passed_since_begin(tx, new[begin:], 0, 0)]

    def _passed_since_begin(
        self, tx: str, new: list[HeldRecord], held: int, chunks: int
    ) -> Sequence[HeldRecord]:
        """The same of records without a BEGIN, or from it on."""
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


def _by_transaction(rows: Iterable[Row]) -> dict[str | None, list[HeldRecord]]:
    """The records of each transaction id, in the order of their offsets."""
    found: dict[str | None, list[HeldRecord]] = {}
    for row in rows:
        for offset, value in zip(row["offsets"], row["values"], strict=True):
            belongs = _belongs(value)
            record = HeldRecord(offset, value, belongs.total_order, belongs.expected)
            found.setdefault(belongs.tx, []).append(record)
    for records in found.values():
        records.sort(key=attrgetter("offset"))
    return found


def _last_begin(records: Sequence[HeldRecord]) -> int | None:
    """The place of the last BEGIN among records that are in the order of their offsets."""
    places = [place for place, record in enumerate(records) if record.total_order == BEGIN]
    return places[-1] if places else None


def is_whole(records: Sequence[HeldRecord]) -> bool:
    """Whether an END is among the records, and as many distinct changes as it says."""
    counts = [record.expected for record in records if record.expected is not None]
    if not counts:
        return False
    numbers = {record.total_order for record in records if record.total_order}
    return len(numbers) >= max(counts)


class _Source(msgspec.Struct):
    tx_id: int | None = msgspec.field(default=None, name="txId")


class _Place(msgspec.Struct):
    total_order: int | None = None


class _Event(msgspec.Struct):
    """What of an event says which transaction it is of, and how many changes that has."""

    op: str | None = None
    source: _Source | None = None
    transaction: _Place | None = None
    status: str | None = None
    id: str | None = None
    event_count: int | None = None


class _Belongs(NamedTuple):
    tx: str | None
    total_order: int | None
    expected: int | None


_NOWHERE = _Belongs(None, None, None)
_EVENT = msgspec.json.Decoder(_Event)


def _belongs(value: bytes | None) -> _Belongs:
    """To which transaction a record belongs; what cannot be read is for the driver to judge."""
    if value is None:
        return _NOWHERE
    try:
        event = _EVENT.decode(value)
    except msgspec.DecodeError:
        return _NOWHERE
    if event.status is not None and event.id is not None:
        ended = event.status == "END"
        tx = event.id.partition(":")[0]
        return _Belongs(tx, None, event.event_count) if ended else _Belongs(tx, BEGIN, None)
    if event.op == "r" or event.source is None or event.source.tx_id is None:
        return _NOWHERE
    total_order = event.transaction.total_order if event.transaction else None
    return _Belongs(str(event.source.tx_id), total_order, None)
