"""Which records that an operator gave up may make a window differ from a mode. Pure."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from lockstep.cdc.records import MESSAGES, table_text
from lockstep.model.window import HOUR, Window
from lockstep.pipeline.catalog import TableName
from lockstep.pipeline.modes import Mode
from lockstep.pipeline.plan import Plan
from lockstep.sources.given_up import GivenUpRecords

JOINS_HISTORY = (Mode.TEMPORAL, Mode.TRANSACTION)
NAMED_MAX = 3
"""Groups of records in a reason, and transactions of each; the quarantine's table has all."""


def facts_read_from(plan: Plan, mode: Mode) -> str:
    """The table from whose changes a mode takes the facts.

    Records of other tables do not matter, but for those that the facts refer to: without their
    changes a drift cannot be proved. Raises PipelineError when it is an outbox that is not named.
    """
    if mode == Mode.MESSAGE:
        return MESSAGES
    return _text(plan.outbox if mode == Mode.OUTBOX else plan.fact.name)


def looked_up(plan: Plan) -> set[str]:
    """The tables that the facts refer to, as the change records name them."""
    return {_text(name) for name in plan.tables if name != plan.fact.name}


def touching(
    given_up: Iterable[GivenUpRecords], plan: Plan, window: Window, mode: Mode, read_at: datetime
) -> list[GivenUpRecords]:
    """The records given up whose loss may show in the comparison of this window with the mode.

    read_at: when the window's hourly run, or its last repair, read the database.
    """
    return [one for one in given_up if _touches(one, plan, window, mode, read_at)]


def _text(table: TableName) -> str:
    return table_text(table.schema, table.name)


def _touches(
    one: GivenUpRecords, plan: Plan, window: Window, mode: Mode, read_at: datetime
) -> bool:
    """By the facts' hour; else every window that was open at the commit.

    Open is a window that has begun and whose hourly run has not read the database yet. Modes that
    join with the history use a row for all facts from its change on, so that later windows are
    touched as well. What is not known counts as yes.
    """
    is_dimension = one.table in looked_up(plan)
    if one.table not in (None, facts_read_from(plan, mode)) and not is_dimension:
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
