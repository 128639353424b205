"""`lockstep bench rows`: its options, and what it prints."""

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table


def bench_rows(
    rows: Annotated[int, typer.Option(min=1_000, help="Rows of a table.")] = 200_000,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; medians are reported.")] = 3,
) -> None:
    """Rows that a driver keeps in memory for look-ups, next to the same in a dict."""
    from lockstep_tools.bench.rows import measure

    console = Console(highlight=False)
    table = Table(title=f"{rows:,} rows, medians of {rounds} rounds", title_justify="left")
    table.add_column("rows of")
    table.add_column("kept")
    for name in ("bytes of a row", "µs to add one", "µs to find one"):
        table.add_column(name, justify="right")
    for (shape, store), one in measure(rows, rounds).items():
        figures = (f"{one.bytes_of_row:.0f}", f"{one.add_us:.1f}", f"{one.find_us:.1f}")
        table.add_row(shape, store, *figures)
    console.print(table)
