"""Whether the change of an order that a stream lacks ever reached the change topic."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from lockstep.cdc.cuts import XID_SPAN
from lockstep.cdc.order_records import decode, without_row
from lockstep.cdc.records import Change, Record, Skipped
from lockstep.errors import PoisonedRecordError, StreamError
from lockstep.pizzeria import ORDERS
from lockstep.settings import Settings
from lockstep.sources import change_topic

BEFORE = timedelta(seconds=5)
"""The broker's clock may be behind the database's."""
RECORDS_MAX = 50_000
"""Read from the commit's time on; a change that comes later than that counts as lost."""


def where_lost(
    settings: Settings, orders: Sequence[tuple[int, int, datetime | None]]
) -> dict[int, dict]:
    """By order id, what the change topic says of it: `topic` is the sentence, `offset` the record.

    orders: id, transaction and commit time, as the database had them.
    """
    return {order_id: _where(settings, order_id, tx, at) for order_id, tx, at in orders}


def _where(settings: Settings, order_id: int, tx_id: int, at: datetime | None) -> dict:
    if at is None:
        return {"topic": "not searched: the database does not say when the order was committed"}
    try:
        first = change_topic.offset_at(settings, at - BEFORE)
        record = _record_of(settings, order_id, tx_id, first)
    except StreamError as error:
        return {"topic": f"not searched: {error}"}
    if record is None:
        return {"topic": "its change never reached the change topic: it was lost before"}
    where = f"is in the change topic at offset {record.offset}"
    if isinstance(record, Skipped):
        found = f"a change of its transaction {where} and cannot be read"
    else:
        found = f"its change {where}"
    return {"topic": found, "offset": record.offset}


def _record_of(settings: Settings, order_id: int, tx_id: int, first: int) -> Record | None:
    """The order's change, or the first of its transaction whose order cannot be read."""
    end = min(first + RECORDS_MAX, change_topic.end_offset(settings))
    for records in change_topic.read_again(settings, first, end):
        for offset, value in records:
            try:
                record = decode(value, offset, (ORDERS,))
            except PoisonedRecordError:
                record = without_row(value, offset)
            if _is_of(record, order_id, tx_id % XID_SPAN):
                return record
    return None


def _is_of(record: Record, order_id: int, tx: int) -> bool:
    change = record.change if isinstance(record, Skipped) else record
    if not isinstance(change, Change) or change.tx != tx or change.table != ORDERS:
        return False
    return isinstance(record, Skipped) or (change.row is not None and change.row.id == order_id)
