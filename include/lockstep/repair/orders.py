"""An order that changed after the cut: how, and what both sides say of it. Pure."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from lockstep.cdc.cuts import XID_SPAN
from lockstep.sources.window_orders import DatabaseOrder

VALUES = ("order_time", "client_name", "table_name", "pizzas")


class How(StrEnum):
    """What became of an order since the hourly table's row of it, or since there was none."""

    NEW = "new"
    UPDATED = "updated"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class ChangedOrder:
    """before: the hourly table's row, VALUES; None of a new order. after: None when cancelled."""

    order_id: int
    how: How
    before: Mapping[str, Any] | None
    after: DatabaseOrder | None

    @property
    def digest(self) -> str:
        """Stands for both sides' values: what was approved is what is written, or nothing is."""
        values = (self.order_id, self.how, self.before, values_of(self.after))
        return hashlib.sha256(json.dumps(values, default=str).encode()).hexdigest()[:16]


def values_of(order: DatabaseOrder | None) -> dict[str, Any] | None:
    """The compared columns of a row of the view."""
    return None if order is None else {name: getattr(order, name) for name in VALUES}


def how_changed(hourly: Mapping[int, int], database: Mapping[int, int]) -> dict[int, How]:
    """The orders whose rows differ, by id and in the order of ids.

    hourly: by order the transaction (64 bits) that wrote the row of `orders` which the hourly
        table's row was made of. database: the one that wrote the row there is now (32 bits).

    Every change of a row has a transaction of its own, so equal ones mean the same row. That is
    exact where the snapshot's list is not: it does not show what a savepoint's transaction did.
    """
    how = {
        order_id: How.NEW if order_id not in hourly else How.UPDATED
        for order_id, row_xid in database.items()
        if order_id not in hourly or hourly[order_id] % XID_SPAN != row_xid
    }
    how |= dict.fromkeys(hourly.keys() - database.keys(), How.CANCELLED)
    return dict(sorted(how.items()))


def counted(changed: Iterable[ChangedOrder]) -> str:
    """For people: 2 new, 1 cancelled."""
    every = [one.how for one in changed]
    return ", ".join(f"{every.count(how):,} {how}" for how in How if how in every)
