"""Which records that an operator gave up may make a window differ from a mode. Pure."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from lockstep.cdc.records import MESSAGES
from lockstep.model.modes import StreamMode
from lockstep.model.window import HOUR, Window
from lockstep.pizzeria import DIMENSION_TABLES, ORDERS, OUTBOX
from lockstep.sources.given_up import GivenUpRecords

ORDERS_READ_FROM = {
    StreamMode.LOOKUP: ORDERS,
    StreamMode.OUTBOX: OUTBOX,
    StreamMode.MESSAGE: MESSAGES,
    StreamMode.TEMPORAL: ORDERS,
    StreamMode.TRANSACTION: ORDERS,
}
"""The table from whose changes a mode takes the orders. Records of other tables do not matter, but
for the dimensions: without their changes a drift cannot be proved."""
JOINS_HISTORY = (StreamMode.TEMPORAL, StreamMode.TRANSACTION)
NAMED_MAX = 3
"""Groups of records in a reason, and transactions of each; the quarantine's table has all."""


def touching(
    given_up: Iterable[GivenUpRecords], window: Window, mode: StreamMode, read_at: datetime
) -> list[GivenUpRecords]:
    """The records given up whose loss may show in the comparison of this window with the mode.

    read_at: when the window's hourly run, or its last repair, read the database.
    """
    return [one for one in given_up if _touches(one, window, mode, read_at)]


def _touches(one: GivenUpRecords, window: Window, mode: StreamMode, read_at: datetime) -> bool:
    """By the orders' hour; else every window that was open at the commit.

    Open is a window that has begun and whose hourly run has not read the database yet. Modes that
    join with the dimensions' history use a row for all orders from its change on, so that later
    windows are touched as well. What is not known counts as yes.
    """
    is_dimension = one.table in DIMENSION_TABLES
    if one.table not in (None, ORDERS_READ_FROM[mode]) and not is_dimension:
        return False
    if one.is_order_hour and one.hour is not None:
        return one.hour < window.end and window.start < one.hour + HOUR
    if one.committed_first is None or one.committed_last is None:
        return True
    is_used_later = is_dimension and mode in JOINS_HISTORY
    has_begun = is_used_later or window.start <= one.committed_last
    return has_begun and one.committed_first <= read_at


def described(given_up: Sequence[GivenUpRecords]) -> str:
    """A sentence for the reason of a verdict; "" when nothing was given up."""
    if not given_up:
        return ""
    first = "; ".join(named(one) for one in given_up[:NAMED_MAX])
    rest = given_up[NAMED_MAX:]
    more = f"; and {sum(one.records for one in rest):,} more records" if rest else ""
    return (
        "given up with `lockstep stream skip`, so that rows of this window may differ: "
        f"{first}{more}"
    )


def named(one: GivenUpRecords) -> str:
    """How many records of what, at which offsets, of which transactions."""
    first, last = one.offsets.first, one.offsets.last
    at = f"at offset {first}" if first == last else f"at offsets {first} to {last}"
    what = f"of {one.table}" if one.table else "of which nothing can be read"
    return f"{count(one.records, 'record')} {what} {at} ({transactions(one)})"


def transactions(one: GivenUpRecords) -> str:
    """The first transactions by their ids, and how many more there are."""
    if not one.transactions:
        return "transaction unknown"
    ids = ", ".join(str(found.tx_id) for found in one.transactions[:NAMED_MAX])
    more = one.transaction_count - min(len(one.transactions), NAMED_MAX)
    word = "transaction" if one.transaction_count == 1 else "transactions"
    return f"{word} {ids}" + (f" and {more:,} more" if more > 0 else "")


def count(number: int, noun: str) -> str:
    """A number with its noun, e.g. `1 record`, `1,200 records`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
