"""A row that changed after the cut: how, and what both sides say of it. Pure."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from lockstep.cdc.cuts import XID_SPAN
from lockstep.pipeline.row_keys import Key
from lockstep.sources.window_rows import DatabaseRow, MadeOf


class How(StrEnum):
    """What became of a row since the hourly table's row of its key, or since there was none."""

    NEW = "new"
    UPDATED = "updated"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class ChangedRow:
    """before: the hourly table's values of the row; None of a new one. after: None when cancelled.

    key: as text (RowKeys.text).
    """

    key: str
    how: How
    before: Mapping[str, Any] | None
    after: DatabaseRow | None

    @property
    def values(self) -> Mapping[str, Any] | None:
        """What the database has now."""
        return None if self.after is None else self.after.values

    @property
    def digest(self) -> str:
        """Stands for both sides' values: what was approved is what is written, or nothing is."""
        values = (self.key, self.how, self.before, self.values)
        return hashlib.sha256(json.dumps(values, default=str).encode()).hexdigest()[:16]


def how_changed(hourly: Mapping[Key, MadeOf], database: Mapping[Key, MadeOf]) -> dict[Key, How]:
    """The rows that differ, by key and in the order of keys.

    hourly: by key what the hourly table's row was made of, its transaction in 64 bits. database:
        what the row there is now is made of, in 32 bits.

    Every change of a row has a transaction of its own, so equal ones mean the same row. That is
    exact where the snapshot's list is not: it does not show what a savepoint's transaction did.
    """
    how = {
        key: How.NEW if key not in hourly else How.UPDATED
        for key, now in database.items()
        if key not in hourly or _in_32_bits(hourly[key]) != now
    }
    how |= dict.fromkeys(hourly.keys() - database.keys(), How.CANCELLED)
    return dict(sorted(how.items()))


def _in_32_bits(made_of: MadeOf) -> MadeOf:
    return made_of._replace(tx_id=made_of.tx_id % XID_SPAN)


def counted(changed: Iterable[ChangedRow]) -> str:
    """For people: 2 new, 1 cancelled."""
    every = [one.how for one in changed]
    return ", ".join(f"{every.count(how):,} {how}" for how in How if how in every)
