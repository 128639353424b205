"""Maintenance for people: a table for the terminal, a line for a log."""

from collections.abc import Sequence

from rich.filesize import decimal
from rich.markup import escape
from rich.table import Table

from lockstep.maintain.outcome import Outcome, State

COLUMNS = 100
_COLOURS = {State.FAILED: "bold red", State.SKIPPED: "yellow"}


def as_table(outcomes: Sequence[Outcome], *, is_dry_run: bool) -> Table:
    """A row for each thing, as wide as COLUMNS at the most."""
    table = Table(box=None, pad_edge=False, show_footer=True, width=COLUMNS)
    freed = decimal(sum(one.freed_bytes for one in outcomes))
    table.add_column("what", footer="all", no_wrap=True)
    table.add_column("state", no_wrap=True)
    table.add_column("before", justify="right", no_wrap=True)
    table.add_column(
        "would free" if is_dry_run else "freed", footer=freed, justify="right", no_wrap=True
    )
    table.add_column("note", overflow="fold")
    for one in outcomes:
        state = _coloured(one.state, is_dry_run=is_dry_run)
        table.add_row(one.what, state, _before(one), decimal(one.freed_bytes), escape(one.note))
    return table


def _coloured(state: State, *, is_dry_run: bool) -> str:
    if is_dry_run and state is State.DONE:
        return "to do"
    colour = _COLOURS.get(state)
    return f"[{colour}]{state}[/]" if colour else str(state)


def as_line(one: Outcome) -> str:
    """The same of one thing, for a task's log."""
    before = _before(one) or "size not known"
    return f"{one.what}: {one.state}, {before}, {decimal(one.freed_bytes)} freed; {one.note}"


def _before(one: Outcome) -> str:
    return "" if one.before_bytes is None else decimal(one.before_bytes)
