"""What one transaction did to each order: one change for each order, its last state.

The same rule for every mode, so that their change logs can be compared change by change: an order
whose last event is a delete is deleted (d), one whose first event is an insert is created (c), any
other is updated (u). TRUNCATE of orders deletes each order that lived before it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from lockstep.cdc.order_records import OrderRow, PublishedOrder
from lockstep.cdc.records import Change
from lockstep.cdc.transactions import TRUNCATE, Transaction
from lockstep.pizzeria import ORDERS
from lockstep.streams.ops import CREATED, DELETED, SNAPSHOT_ROW, result_op

Mark = TypeVar("Mark")
Living = Callable[[], Iterable[int]]
"""The ids of the orders alive before a transaction; asked for on TRUNCATE only."""


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


class OrderFold(dict[int, tuple[str, str, Mark]]):
    """Of each order touched so far: its first and its last event, and a mark of the last."""

    def note(self, change: Change, mark: Mark, table: str, living: Living) -> None:
        """Apply the transaction's next change; those of other tables say nothing of orders."""
        if change.op == TRUNCATE and change.table == ORDERS:
            alive = [order_id for order_id, (_, last, _) in self.items() if last != DELETED]
            for order_id in {*living(), *alive}:
                self._touch(order_id, DELETED, mark)
        elif change.table == table and change.row is not None:
            self._touch(*event(change), mark)

    def op(self, order_id: int) -> str:
        first, last, _ = self[order_id]
        return result_op(first, last)

    def _touch(self, order_id: int, op: str, mark: Mark) -> None:
        first = self[order_id][0] if order_id in self else op
        self[order_id] = (first, op, mark)


def fold_orders(
    transaction: Transaction, changes: Iterable[Change], table: str, living: Living
) -> list[OrderChange]:
    """One change for each order that the transaction touched, in the order of first touch.

    changes: by total_order; those of `table` are of orders (the orders themselves, the outbox, or
        messages), and TRUNCATE of the orders is read whatever the table.
    """
    fold: OrderFold[Change] = OrderFold()
    for change in changes:
        fold.note(change, change, table, living)
    return [
        order_change(order_id, fold.op(order_id), change, transaction)
        for order_id, (_, _, change) in fold.items()
    ]


def event(change: Change) -> tuple[int, str]:
    """The order and what happened to it: a row of the snapshot creates it."""
    if isinstance(change.row, PublishedOrder):
        return change.row.order_id, change.row.op
    return change.row.id, CREATED if change.op == SNAPSHOT_ROW else change.op


def order_change(order_id: int, op: str, last: Change, transaction: Transaction) -> OrderChange:
    """The order's state after its last change of the transaction."""
    return OrderChange(
        order_id=order_id,
        op=op,
        row=None if op == DELETED else last.row,
        tx_id=transaction.tx_id,
        commit_lsn=transaction.commit_lsn,
        committed_us=last.committed_us,
        captured_us=last.captured_us,
    )
