"""`lockstep orders`: load the pizzeria's orders from files, or generate new ones.

Options and what is shown on the terminal; the work is in lockstep.shop.
"""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from lockstep.settings import Settings
from lockstep.shop.loader import LoadReport, load
from lockstep.shop.pizza_place import PizzaPlace, read_pizza_place

app = typer.Typer(no_args_is_help=True)

MAX_RATE = 100_000  # orders a second; more than any machine takes, so surely a mistake


@app.command("load")
def load_command(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder with the four pizza-place CSV files.")
    ],
    rate: Annotated[
        float | None,
        typer.Option(min=0.01, max=MAX_RATE, help="Orders a second; default: as fast as it goes."),
    ] = None,
) -> None:
    """Load and replay a data set of orders, one transaction each. Run again, it resumes."""
    settings = Settings.load()
    data = read_pizza_place(folder)
    console = Console()
    with Progress(
        TextColumn("orders"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    ) as progress:
        task = progress.add_task("load", total=len(data.orders))
        report = load(settings, data, rate, lambda orders: progress.advance(task, orders))
    _show_load(console, data, report)


def _show_load(console: Console, data: PizzaPlace, report: LoadReport) -> None:
    console.print(
        f"{report.loaded:,} orders loaded in {report.seconds:.1f} s "
        f"({report.orders_per_second:,.0f} a second), {report.skipped:,} already there.",
        highlight=False,
    )
    table = Table("", *("orders", "pizzas", "revenue"))
    for column in table.columns[1:]:
        column.justify = "right"
    found = report.found
    table.add_row("files", f"{len(data.orders):,}", f"{data.pizza_count:,}", f"{data.revenue:,}")
    table.add_row("database", f"{found.orders:,}", f"{found.pizzas:,}", f"{found.revenue:,}")
    console.print(table)
    if found.revenue != data.revenue:
        console.print(
            "The menu's prices have changed since these orders were first loaded: revenue is "
            "counted at today's prices.",
            highlight=False,
        )
