"""A transaction (or snapshot) that does not fit into memory, read from the topic again in slices.

Memory is bounded by the slice and by a number for each change. What the changes leave of rows is
never here: that is large_rows.py.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from lockstep.cdc.records import Change
from lockstep.cdc.transactions import TRUNCATE, Transaction
from lockstep.settings import Settings
from lockstep.sources.change_topic import read_again
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
