"""The moments that rows are judged at, as numbers for one run of a query over many of them. Pure.

A commit is its LSN, 0 or more. What a snapshot sees is no prefix of the log, so that it is a point
of its own: a negative number, at which each row's last version that it sees is valid.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from lockstep.cdc.cuts import DatabaseSnapshot
from lockstep.parity.readiness import Readiness
from lockstep.parity.versions import NOWHERE, RowHistory
from lockstep.pipeline.plan import Plan
from lockstep.pipeline.row_keys import Key

_NEVER = 2**63 - 1


@dataclass(frozen=True)
class Cuts:
    """The snapshots that the rows of a window are judged at, as PostgreSQL writes them.

    run: what the hourly run read. repaired: of each repaired row what its last repair read.
    """

    run: str
    repaired: Mapping[Key, str]

    @classmethod
    def of_window(cls, plan: Plan, ready: Readiness) -> "Cuts":
        repaired = {
            plan.row_keys.read(id_) if isinstance(id_, str) else (id_,): cut.snapshot
            for id_, cut in ready.cuts_of_repaired().items()
        }
        return cls(ready.run.cut.snapshot, repaired)

    def of(self, key: Key) -> str:
        """The snapshot of a row."""
        return self.repaired.get(key, self.run)

    @cached_property
    def texts(self) -> list[str]:
        """Each snapshot once, the run's first."""
        return list(dict.fromkeys([self.run, *self.repaired.values()]))

    @property
    def snapshots(self) -> list[DatabaseSnapshot]:
        """The same, read."""
        return [DatabaseSnapshot.parse(text) for text in self.texts]


class Points:
    """Numbers some snapshots, and says at which points each version of a row is valid.

    numbers: the point of each snapshot, by its text.
    """

    def __init__(self, snapshots: Iterable[str]) -> None:
        """snapshots: each as often as it comes."""
        read = {text: DatabaseSnapshot.parse(text) for text in snapshots}
        # What a later one sees begins where an earlier one ends, but for those in progress.
        ordered = sorted(read, key=lambda text: read[text].xmax)
        self._count = len(ordered)
        self.numbers = {text: place - self._count for place, text in enumerate(ordered)}
        self._names = {number: text for text, number in self.numbers.items()}
        self._xmax = [read[text].xmax for text in ordered]
        self._hidden: dict[int, set[int]] = defaultdict(set)
        for place, text in enumerate(ordered):
            for tx_id in read[text].in_progress:
                self._hidden[tx_id].add(place)
        self._all_see = min((one.xmin for one in read.values()), default=0)

    def number(self, snapshot: str) -> int:
        """The point of one of the snapshots."""
        return self.numbers[snapshot]

    def name(self, point: int) -> int | str:
        """What the point is in any comparison: the commit, or the snapshot's text."""
        return self._names.get(point, point)

    def validities(self, row: RowHistory) -> Iterator[tuple[Any, ...]]:
        """Each version's values with the points, half-open, at which it is valid.

        From its commit to the next one; and at the snapshots of which it is the last one seen.
        """
        ends = [*(one.commit_lsn for one in row.versions[1:]), _NEVER]
        for one, end in zip(row.versions, ends, strict=True):
            if one.values is not None:
                yield (*one.values, one.commit_lsn, end)
        for first, end, place in self._last_seen(row):
            values = row.values(place)
            if values is not None:
                yield (*values, first - self._count, end - self._count)

    def _last_seen(self, row: RowHistory) -> Iterator[tuple[int, int, int]]:
        """Stretches of the snapshots, in their order, that see the same version as the last one."""
        if not self._count:
            return
        tx_ids = [one.tx_id for one in row.versions]
        if all(tx_id is None or tx_id < self._all_see for tx_id in tx_ids):
            yield 0, self._count, len(tx_ids) - 1
            return
        bounds = sorted({0, self._count, *(at for tx_id in tx_ids for at in self._changes(tx_id))})
        for first, end in pairwise(bounds):
            seen = [place for place, tx_id in enumerate(tx_ids) if self._sees(first, tx_id)]
            yield first, end, max(seen, default=NOWHERE)

    def _changes(self, tx_id: int | None) -> Iterator[int]:
        """Where in the snapshots' order one sees a transaction that the one before does not."""
        if tx_id is not None:
            yield bisect_right(self._xmax, tx_id)
            for place in self._hidden.get(tx_id, ()):
                yield from (place, place + 1)

    def _sees(self, place: int, tx_id: int | None) -> bool:
        return tx_id is None or (
            tx_id < self._xmax[place] and place not in self._hidden.get(tx_id, ())
        )
