"""`lockstep bench appends`: its options, and what it prints."""

from typing import Annotated

import typer
from lockstep.settings import Settings
from rich.console import Console
from rich.table import Table


def bench_appends(
    rows: Annotated[int, typer.Option(min=1, help="Rows of a commit.")] = 20,
    commits: Annotated[int, typer.Option(min=100, help="Commits that are counted.")] = 300,
    versions: Annotated[int, typer.Option(min=100, help="Versions that the table has.")] = 2_000,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; medians are reported.")] = 3,
) -> None:
    """A stream's commits to its table, next to delta-rs's of the same rows."""
    from lockstep_tools.bench.appends import DELTA_RS, OWN, measure

    console = Console(highlight=False)
    measured = measure(Settings.load(), rows, commits, versions, rounds)
    table = Table(
        title=f"milliseconds of a commit of {rows} rows, medians of {rounds} rounds",
        title_justify="left",
    )
    table.add_column("commits")
    for name in ("until readable", "processor, upkeep included", "times delta-rs"):
        table.add_column(name, justify="right")
    peer = measured.medians(DELTA_RS)
    for who in (OWN, DELTA_RS):
        wall_ms, processor_ms = measured.medians(who)
        ratios = f"{wall_ms / peer[0]:.2f}, {processor_ms / peer[1]:.2f}"
        table.add_row(who, f"{wall_ms:.1f}", f"{processor_ms:.1f}", ratios)
    console.print(table)
