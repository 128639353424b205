"""`lockstep pipeline check --histories`: stream and hourly run. Only the talking is here."""

from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.table import Table

from lockstep.errors import ConfigurationError
from lockstep.pipeline.errors import shown_value
from lockstep.pipeline.row_keys import named

if TYPE_CHECKING:
    from lockstep.histories.check import Difference

SHOWN_MAX = 3
"""Differences that are shown: all are of one history."""


def show_histories(name: str, histories: int, seed: int) -> None:
    """Print what was compared, or how the two differ first; exit with 1 if they do."""
    from lockstep.histories.check import check_named

    if not name:
        raise ConfigurationError("--histories tries one pipeline: name it")
    plan, found = check_named(name, histories, seed)
    console = Console(highlight=False)
    for failure, count in sorted(found.failures.items()):
        console.print(
            f"{count} of {histories} histories were not compared to their end, since the query "
            f"fails over a made-up value: {failure}",
            markup=False,
            soft_wrap=True,
        )
    if not found.rows:
        console.print("nothing was compared: no row of the fact was made without such a value")
        raise typer.Exit(1)
    if not found.differences:
        console.print(
            f"stream and hourly run give the same {found.rows:,} rows, after "
            f"{found.transactions:,} transactions of made-up histories (seed {seed})"
        )
        return
    for one in found.differences[:SHOWN_MAX]:
        _show(console, plan.key, one, seed)
    raise typer.Exit(1)


def _show(console: Console, key: tuple[str, ...], one: "Difference", seed: int) -> None:
    console.print(
        f"{named(key, one.key)} differs in history {one.history} of seed {seed}, after the "
        "transaction",
        markup=False,
    )
    for line in one.writes:
        console.print(f"  {line}", markup=False)
    table = Table(box=None, pad_edge=False)
    for title in ("column", "hourly run", "stream"):
        table.add_column(title, overflow="fold")
    if one.batch is None or one.stream is None:
        table.add_row(
            "", *("no row" if side is None else "a row" for side in (one.batch, one.stream))
        )
    else:
        for name, value in one.batch.items():
            table.add_row(name, shown_value(value), shown_value(one.stream[name]))
    console.print(table)
