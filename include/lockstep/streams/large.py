"""A transaction (or snapshot) that does not fit into memory, read from the topic again in slices.

Memory is bounded by the slice and by one small entry for each row that the transaction touches.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from lockstep.cdc.records import Change
from lockstep.cdc.transactions import TRUNCATE, Transaction
from lockstep.settings import Settings
from lockstep.sources.change_topic import read_again
from lockstep.streams.fold import Living, OrderChange, OrderFold, event, order_change
from lockstep.streams.given_up import GivenUp


@dataclass(frozen=True)
class LargeTransaction:
    """The transaction (whose `changes` are None) and where to find what it says.

    given_up: records that an operator gave up. progressed: called after each slice, for
    what watches a stream that commits nothing for minutes.
    """

    settings: Settings
    transaction: Transaction
    given_up: GivenUp
    progressed: Callable[[], None]

    def changes(self, wanted: Collection[str]) -> Iterator[list[Change]]:
        """Its changes of the wanted tables, each once, in slices in the order of the topic."""
        numbers: set[int] = set()
        tx, offsets = self.transaction.tx, self.transaction.offsets
        records_again = read_again(
            self.settings, offsets.first, offsets.last + 1, self.given_up.topic
        )
        for records in records_again:
            found = []
            for offset, value in records:
                change = self.given_up.decoded(value, offset, wanted)
                if not isinstance(change, Change) or change.tx != tx:
                    continue
                if tx is not None and change.total_order in numbers:
                    continue
                if change.table in wanted or change.op == TRUNCATE:
                    numbers.add(change.total_order)
                    found.append(change)
            yield found
            self.progressed()

    def order_changes(self, table: str, living: Living) -> Iterator[list[OrderChange]]:
        """One change for each order, in slices. A first pass, now, finds where its last event is.

        Only that pass asks who is alive.
        """
        fold: OrderFold[int] = OrderFold()
        for changes in self.changes({table}):
            for change in changes:
                fold.note(change, change.offset, table, living)
        return (
            [found for change in changes for found in self._last_of(change, fold)]
            for changes in self.changes({table})
        )

    def _last_of(self, change: Change, fold: OrderFold[int]) -> Iterator[OrderChange]:
        """The orders whose last event this change is: one at the most, but for TRUNCATE."""
        if change.op == TRUNCATE:
            ids = [order_id for order_id, (_, _, last) in fold.items() if last == change.offset]
        else:
            order_id = event(change)[0] if change.row is not None else None
            ids = [order_id] if order_id in fold and fold[order_id][2] == change.offset else []
        for order_id in ids:
            yield order_change(order_id, fold.op(order_id), change, self.transaction)
