"""A plan for people to decide on: for terminals, and as Markdown for Airflow's form."""

import re
from collections.abc import Iterator

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from lockstep.ledger.formatting import plain
from lockstep.pipeline.row_keys import RowKeys
from lockstep.repair.changed_rows import ChangedRow, counted
from lockstep.repair.plan import RepairPlan

SHOWN = 50
_TITLES = ("row", "what", "hourly table", "database now")
_MARKS = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~])")


def headline(plan: RepairPlan) -> str:
    """How many rows changed, and how, in a line."""
    if not plan.changed:
        return f"no row of {plan.window} changed after the cut of run {plan.run_id}"
    return (
        f"{len(plan.changed):,} rows of {plan.window} changed after the cut of run "
        f"{plan.run_id}: {counted(plan.changed)}"
    )


def alternative(plan: RepairPlan) -> str:
    """Why a repair, and not the hour again."""
    return (
        "A repair merges just these rows, with what they are joined with today. Running the hour "
        f"again would also change {plan.others_rerun:,} of its {plan.others:,} other rows, for it "
        "joins all of them with what is there today."
    )


def print_plan(console: Console, plan: RepairPlan) -> None:
    """The first rows, then what the choice is."""
    if plan.changed:
        table = Table(show_lines=True)
        for title in _TITLES:
            table.add_column(title, overflow="fold")
        for one in plan.changed[:SHOWN]:
            table.add_row(*(escape(cell) for cell in _cells(one, plan.row_keys)))
        console.print(table)
        if (more := len(plan.changed) - SHOWN) > 0:
            console.print(f"and {more:,} more")
    console.print(headline(plan), markup=False)
    if plan.changed:
        console.print(alternative(plan), markup=False)


def as_markdown(plan: RepairPlan) -> str:
    """The same as Markdown; values of the database cannot be taken for marks."""
    rows = [_TITLES, ("---",) * len(_TITLES)]
    rows += [tuple(map(_unmarked, _cells(one, plan.row_keys))) for one in plan.changed[:SHOWN]]
    table = "\n".join(f"| {' | '.join(cells)} |".replace("\n", ", ") for cells in rows)
    more = len(plan.changed) - SHOWN
    rest = f"\n\nand {more:,} more" if more > 0 else ""
    return f"{_unmarked(headline(plan))}\n\n{alternative(plan)}\n\n{table}{rest}\n"


def _unmarked(text: str) -> str:
    return _MARKS.sub(r"\\\1", text)


def _cells(one: ChangedRow, keys: RowKeys) -> Iterator[str]:
    """Of an updated row only what differs."""
    before, after = one.before, one.values
    names = [
        name
        for name in (after if before is None else before)
        if before is None or after is None or before[name] != after[name]
    ]
    yield keys.shown(one.key)
    yield str(one.how)
    for side in (before, after):
        yield "" if side is None else "\n".join(f"{name}: {plain(side[name])}" for name in names)
