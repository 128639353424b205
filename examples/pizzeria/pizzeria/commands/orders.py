"""`lockstep orders`: load the pizzeria's orders from files, or generate new ones.

Options and what is shown on the terminal; the work is in pizzeria.shop.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from lockstep.settings import Settings
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from pizzeria.shop.generator import GenerateReport, generate
from pizzeria.shop.loader import LoadReport, load
from pizzeria.shop.pizza_place import PizzaPlace, read_pizza_place

group = typer.Typer(no_args_is_help=True)

MAX_RATE = 100_000  # orders a second; more than any machine takes, so surely a mistake
MAX_WRITERS = 64  # PostgreSQL takes 100 connections by default, and others need some


def register(app: typer.Typer) -> None:
    """Add the group to the application."""
    app.add_typer(group, name="orders", help="Load, replay and generate the pizzeria's orders.")


@group.command("load")
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
    with _order_progress(console, len(data.orders)) as advance:
        report = load(settings, data, rate, advance)
    _show_load(console, data, report)


@group.command("generate")
def generate_command(
    rate: Annotated[
        float, typer.Option(min=0.01, max=MAX_RATE, help="Orders placed a second.")
    ] = 10.0,
    seconds: Annotated[float, typer.Option(min=0.1, help="For how long.")] = 60.0,
    seed: Annotated[int, typer.Option(help="The same seed plans the same transactions.")] = 1,
    writers: Annotated[
        int, typer.Option(min=1, max=MAX_WRITERS, help="Connections that write at once.")
    ] = 4,
) -> None:
    """Run an evening in the shop: orders, changes, cancellations, renames, prices, aborts."""
    if rate * seconds < 1:
        raise typer.BadParameter(f"{rate:g} orders a second make none in {seconds:g} s")
    settings = Settings.load()
    console = Console()
    with _order_progress(console, int(rate * seconds)) as advance:
        report = generate(
            settings,
            rate=rate,
            seconds=seconds,
            seed=seed,
            writers=writers,
            on_progress=advance,
        )
    _show_generated(console, report)


@contextmanager
def _order_progress(console: Console, total: int) -> Iterator[Callable[[int], None]]:
    """A bar of orders; yields what moves it on by a number of orders."""
    with Progress(
        TextColumn("orders"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        task = progress.add_task("orders", total=total)
        yield lambda orders: progress.advance(task, orders)


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


def _show_generated(console: Console, report: GenerateReport) -> None:
    console.print(
        f"{report.placed_orders:,} orders placed in {report.seconds:.1f} s, "
        f"{report.transactions.total():,} transactions, {report.collisions:,} collisions retried, "
        f"the latest {report.late_seconds_max:.2f} s behind its time.",
        highlight=False,
    )
    table = Table("transactions", "")
    table.columns[1].justify = "right"
    for kind, count in report.transactions.most_common():
        table.add_row(str(kind), f"{count:,}")
    console.print(table)
