"""Mode `transaction`: changes of a transaction that is under way wait in Spark's state store.

The change topic is grouped by transaction id. The records of a transaction whose END has not come
yet are kept in RocksDB, part of the query's checkpoint, and go on to the driver together with their
END; the driver sees whether they are all there and puts the transactions into commit order. What
goes on at once, so that the driver knows what is under way: the first record of each transaction,
every END, and what belongs to no transaction. A transaction with more than HELD_RECORDS_MAX records
is not kept: the driver counts it, and reads it from the topic again.

No timers: with processing-time timers Spark runs empty micro-batches without pause (five a second,
measured), and with event-time ones it drops what comes late. The driver tells the age.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from lockstep.sources.python_worker import spare_garbage_collection

HELD_RECORDS_MAX = 50_000
"""Records of one transaction kept in the state store: some 50 MB."""
PASSING = -1
"""Instead of the number of records held: this transaction's records go on as they come."""
_HELD = "offset bigint, value binary, total_order bigint, expected bigint"
_HELD_NAMES = ("offset", "value", "total_order", "expected")
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
        "offset",
        "value",
        F.when(~is_of_snapshot, F.coalesce(event["source"]["txId"].cast("string"), boundary)).alias(
            "tx"
        ),
        event["transaction"]["total_order"].alias("total_order"),
        F.when(event["status"] == "END", event["event_count"]).alias("expected"),
    )
    return keyed.groupBy("tx").transformWithState(
        OpenTransactions(), "offset bigint, value binary", outputMode="Append", timeMode="None"
    )


class OpenTransactions(StatefulProcessor):
    """Keeps the records of one transaction until its END; called for it once a micro-batch.

    State: how many records are held, or PASSING, and those records.
    """

    def init(self, handle: StatefulProcessorHandle) -> None:
        spare_garbage_collection()
        self._count = handle.getValueState("count", "records bigint")
        self._held = handle.getListState("held", _HELD)

    def handleInputRows(  # noqa: N802
        self,
        key: tuple[str | None],
        rows: Iterator[Row],
        timerValues: object,  # noqa: N803
    ) -> Iterator[Row]:
        new = sorted(rows, key=lambda row: row["offset"])
        passed = new if key[0] is None else self._passed(new)
        return (Row(offset=row["offset"], value=row["value"]) for row in passed)

    def close(self) -> None:
        pass

    def _passed(self, new: Sequence[Row]) -> Sequence[Any]:
        """The records that go on now; the others are kept."""
        known = self._count.get()
        held = 0 if known is None else known[0]
        if held == PASSING:
            if is_whole(new):
                self._count.clear()
            return new
        if not held and is_whole(new):
            return new
        has_ended = any(row["expected"] is not None for row in new)
        if not has_ended and held + len(new) <= HELD_RECORDS_MAX:
            self._held.appendList([tuple(row[name] for name in _HELD_NAMES) for row in new])
            self._count.update((held + len(new),))
            return [] if held else new[:1]
        together = [*self._taken(held), *new]
        if is_whole(together):
            self._count.clear()
        else:  # what is missing, or too much to keep, goes on as it comes
            self._count.update((PASSING,))
        return together

    def _taken(self, held: int) -> list[dict[str, Any]]:
        if not held:
            return []
        found = [dict(zip(_HELD_NAMES, row, strict=True)) for row in self._held.get()]
        self._held.clear()
        return found


def is_whole(records: Sequence[Any]) -> bool:
    """Whether an END is among the records, and as many distinct changes as it says."""
    counts = [row["expected"] for row in records if row["expected"] is not None]
    numbers = {row["total_order"] for row in records if row["total_order"] is not None}
    return bool(counts) and len(numbers) >= max(counts)
