"""What one transaction did to each order: one change for each order, its last state.

The same rule for every mode, so that their change logs can be compared change by change: an order
whose last event is a delete is deleted (d), one whose first event is an insert is created (c), any
other is updated (u). TRUNCATE of orders deletes each order that lived before it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lockstep.cdc.records import Change, OrderRow, PublishedOrder
from lockstep.cdc.transactions import Transaction
from lockstep.contracts import ORDERS

CREATED, UPDATED, DELETED, TRUNCATED, SNAPSHOT_ROW = "c", "u", "d", "t", "r"


@dataclass(frozen=True, slots=True)
class OrderChange:
    """An order's state at a transaction's commit; `row` is None when it is deleted."""

    order_id: int
    op: str
    row: OrderRow | PublishedOrder | None
    tx_id: int | None
    commit_lsn: int
    committed_us: int
    captured_us: int


def fold_orders(
    transaction: Transaction,
    changes: Iterable[Change],
    table: str,
    living: Callable[[], Iterable[int]],
) -> list[OrderChange]:
    """One change for each order that the transaction touched, in the order of first touch.

    changes: by total_order; those of `table` tell of orders (the orders themselves, the outbox, or
        messages), and TRUNCATE of the orders is heeded whatever the table.
    living: the ids of the orders alive before the transaction, asked for on TRUNCATE only.
    """
    touched: dict[int, tuple[str, str, Change]] = {}
    for change in changes:
        if change.op == TRUNCATED and change.table == ORDERS:
            for order_id in {*living(), *_alive(touched)}:
                first = touched[order_id][0] if order_id in touched else DELETED
                touched[order_id] = (first, DELETED, change)
        elif change.table == table and change.row is not None:
            order_id, op = _event(change)
            first = touched[order_id][0] if order_id in touched else op
            touched[order_id] = (first, op, change)
    return [
        _folded(order_id, first, last, change, transaction)
        for order_id, (first, last, change) in touched.items()
    ]


def is_alive(change: OrderChange) -> bool:
    return change.op != DELETED


def _alive(touched: dict[int, tuple[str, str, Change]]) -> list[int]:
    return [order_id for order_id, (_, last, _) in touched.items() if last != DELETED]


def _event(change: Change) -> tuple[int, str]:
    """The order and what happened to it: a row of the snapshot creates it."""
    if isinstance(change.row, PublishedOrder):
        return change.row.order_id, change.row.op
    return change.row.id, CREATED if change.op == SNAPSHOT_ROW else change.op


def _folded(
    order_id: int, first: str, last: str, change: Change, transaction: Transaction
) -> OrderChange:
    op = DELETED if last == DELETED else CREATED if first == CREATED else UPDATED
    return OrderChange(
        order_id=order_id,
        op=op,
        row=None if op == DELETED else change.row,
        tx_id=transaction.tx_id,
        commit_lsn=transaction.commit_lsn,
        committed_us=change.committed_us,
        captured_us=change.captured_us,
    )
