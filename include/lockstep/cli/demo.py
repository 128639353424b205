"""`lockstep demo`: the whole main path on this machine, with what came of it on one screen."""

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.table import Table

from lockstep import contracts
from lockstep.settings import Settings

if TYPE_CHECKING:
    from lockstep.demo.story import Delivered

NAME_WIDTH = 24


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command()(demo)


def demo() -> None:
    """Start the stack, take orders, backfill their hours in Airflow, and show the result."""
    from lockstep.demo import story
    from lockstep.stack import control

    console, began = Console(highlight=False), time.monotonic()

    def tell(outcome: control.Outcome) -> None:
        what = f"up in {outcome.seconds:.1f} s" if outcome.acted else "already up"
        console.print(f"  {outcome.service:<{NAME_WIDTH}} {what:<14} {outcome.address}")

    _title(console, 1, "PostgreSQL, Kafka and change data capture")
    settings = control.up(Settings.load(), ["connect"], tell)

    windows = story.past_windows(datetime.now(UTC))
    _title(console, 2, f"Orders of the hours {windows[0].start:%H:%M} to {windows[-1].end:%H:%M}")
    orders = story.place_orders(settings, windows)
    since = datetime.now(UTC)
    console.print(f"  {orders:,} orders placed, each a transaction with outbox row and message")

    _title(console, 3, "Airflow")
    settings = control.up(settings, progress=tell)

    _title(console, 4, "The hourly DAG, backfilled by Airflow for each of these hours")
    with console.status("  Airflow is at work …"):
        runs = story.backfill(
            settings, windows, since, lambda line: console.print(f"  {line}", markup=False)
        )
    delivered = story.delivered(settings, windows, runs)

    _title(console, 5, "What it delivered")
    console.print(_hours_table(delivered))
    waited = delivered.delays.delay_minutes
    console.print(
        f"  An order waited {waited.min():.1f} to {waited.max():.1f} minutes for its hourly run, "
        f"{waited.median():.0f} at the median:\n  [bold]{delivered.chart}[/]",
        soft_wrap=True,
    )
    _next_steps(console, settings)
    console.print(f"\n[bold green]The demo succeeded[/] in {time.monotonic() - began:.0f} s.")


def _title(console: Console, number: int, text: str) -> None:
    console.print(f"\n[bold]{number}. {text}[/]")


def _hours_table(delivered: "Delivered") -> Table:
    table = Table(title=None, pad_edge=True)
    for name in ("hour (UTC)", "orders", "pizzas", "revenue", "run", "took", "waited"):
        justify = "left" if name in ("hour (UTC)", "run") else "right"
        table.add_column(name, justify=justify, no_wrap=True)
    for hour in delivered.hours:
        start = hour.window.start
        run = delivered.runs[start]
        waited = delivered.delays[delivered.delays.hour == start].delay_minutes
        table.add_row(
            f"{start:%m-%d %H:%M}",
            f"{hour.orders:,}",
            f"{hour.pizzas:,}",
            f"{hour.revenue:,.2f}",
            run.run_type,
            f"{run.seconds:.0f} s",
            f"{waited.min():.0f} to {waited.max():.0f} min" if len(waited) else "-",
        )
    return table


def _next_steps(console: Console, settings: Settings) -> None:
    console.print("\n[bold]Where to look next[/]")
    table = contracts.ORDERS_ENRICHED_BATCH.rsplit("/", 1)[-1]
    lines = {
        "Airflow": f"{settings.airflow_url}/dags/{contracts.HOURLY_DAG_ID}",
        "sign in": f"user admin, password: grep AIRFLOW_UI {settings.secrets_path}",
        "quality reports": f"{settings.airflow_url} (menu: Data Docs)",
        "the rows": f'.venv/bin/lockstep sql "SELECT * FROM {table} LIMIT 5"',  # noqa: S608
        "what runs": ".venv/bin/lockstep status",
        "stop everything": "make down",
    }
    for name, text in lines.items():
        console.print(f"  {name:<{NAME_WIDTH - 8}} {text}", markup=False, soft_wrap=True)
