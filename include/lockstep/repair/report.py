"""A plan for people to decide on: for terminals, and as Markdown for Airflow's form."""

import re
from collections.abc import Iterator

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from lockstep.ledger.formatting import plain
from lockstep.repair.orders import VALUES, ChangedOrder, counted, values_of
from lockstep.repair.plan import Plan

SHOWN = 50
_TITLES = ("order", "what", "hourly table", "database now")
_MARKS = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~])")


def headline(plan: Plan) -> str:
    """How many orders changed, and how, in a line."""
    if not plan.changed:
        return f"no order of {plan.window} changed after the cut of run {plan.run_id}"
    return (
        f"{len(plan.changed):,} orders of {plan.window} changed after the cut of run "
        f"{plan.run_id}: {counted(plan.changed)}"
    )


def alternative(plan: Plan) -> str:
    """Why a repair, and not the hour again."""
    return (
        "A repair merges just these orders, with the names and prices of today. Running the hour "
        f"again would also change {plan.others_rerun:,} of its {plan.others:,} other orders, for "
        "it reads today's names and prices for all of them."
    )


def print_plan(console: Console, plan: Plan) -> None:
    """The first orders, then what the choice is."""
    if plan.changed:
        table = Table(show_lines=True)
        for title in _TITLES:
            table.add_column(title, overflow="fold")
        for one in plan.changed[:SHOWN]:
            table.add_row(*(escape(cell) for cell in _cells(one)))
        console.print(table)
        if (more := len(plan.changed) - SHOWN) > 0:
            console.print(f"and {more:,} more")
    console.print(headline(plan), markup=False)
    if plan.changed:
        console.print(alternative(plan), markup=False)


def as_markdown(plan: Plan) -> str:
    """The same as Markdown; values of the database cannot be taken for marks."""
    rows = [_TITLES, ("---",) * len(_TITLES)]
    rows += [tuple(map(_unmarked, _cells(one))) for one in plan.changed[:SHOWN]]
    table = "\n".join(f"| {' | '.join(cells)} |".replace("\n", ", ") for cells in rows)
    more = len(plan.changed) - SHOWN
    rest = f"\n\nand {more:,} more" if more > 0 else ""
    return f"{_unmarked(headline(plan))}\n\n{alternative(plan)}\n\n{table}{rest}\n"


def _unmarked(text: str) -> str:
    return _MARKS.sub(r"\\\1", text)


def _cells(one: ChangedOrder) -> Iterator[str]:
    """Of an updated order only what differs."""
    before, after = one.before, values_of(one.after)
    names = [n for n in VALUES if before is None or after is None or before[n] != after[n]]
    yield str(one.order_id)
    yield str(one.how)
    for side in (before, after):
        yield "" if side is None else "\n".join(f"{name}: {plain(side[name])}" for name in names)
