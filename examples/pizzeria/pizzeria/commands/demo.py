"""`lockstep demo`: the whole story on this machine, with what came of it on one screen.

Only the talking is here; what is done is pizzeria.demo's, and the tables are demo_tables'.
"""

import time
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import TYPE_CHECKING

import typer
from lockstep.airflow_names import PARITY_URL
from lockstep.pipeline.names import sql_name
from lockstep.settings import Settings
from rich.console import Console

from pizzeria import names as pizzeria

if TYPE_CHECKING:
    from lockstep.devstack import control
    from lockstep.model.window import Window

NAME_WIDTH = 24
TABLE_COLUMNS = 110


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command()(demo)


def demo() -> None:
    """Run hourly job and streams side by side on live orders, and show where they differ, and why.

    Exits with 1 when a comparison fails.
    """
    from lockstep.devstack import control
    from lockstep.model.verdict import Verdict

    from pizzeria.commands import demo_tables
    from pizzeria.demo import story
    from pizzeria.demo.hours import totals
    from pizzeria.shop.incidents import open_order, raise_price

    console, began = Console(highlight=False), time.monotonic()
    console.width = max(console.width, TABLE_COLUMNS)
    title = _Titles(console)

    title("PostgreSQL, Kafka and change data capture")
    settings = control.up(Settings.load(), ["connect"], lambda one: _tell(console, one))

    title("Two streams, in one driver of their own")
    _start_streams(console, settings)

    windows = story.past_windows(datetime.now(UTC))
    title(f"Live orders of the hours {windows[0].start:%H:%M} to {windows[-1].end:%H:%M} UTC")
    placed_since = datetime.now(UTC)
    _place_orders(console, settings, windows)

    title("What makes an hourly job and a stream differ")
    change = raise_price(settings, story.PRICE_RISE)
    since = datetime.now(UTC)
    console.print(f"  {change.pizza} costs {change.after} from now on; it was {change.before}")
    order_time = windows[-1].end - story.BEFORE_THE_END
    with open_order(settings, order_time, story.SEED) as late:
        console.print(
            f"  order {late.order_id}, taken at {order_time:%H:%M}, is placed in a transaction "
            "that stays open\n  until the hourly run has read its hour"
        )

        title("Airflow: the hourly DAG for these hours, and its comparison with the streams")
        settings = control.up(settings, progress=lambda one: _tell(console, one))
        with console.status("  Airflow is at work …"):
            outcome = story.through_airflow(
                settings,
                windows,
                since,
                late,
                lambda line: console.print(f"  {line}", markup=False),
            )

    title("How long each order waited")
    waiting = story.waiting(settings, windows, outcome.runs, placed_since)
    console.print(demo_tables.hours(totals(settings, windows), outcome.runs, waiting.delays))
    console.print(f"  {waiting.headline}:\n  [bold]{waiting.chart}[/]", soft_wrap=True)

    title("Do streams and hourly job agree?")
    demo_tables.print_verdicts(console, settings, outcome.verdicts)

    _next_steps(console, settings, late.order_id)
    seconds = time.monotonic() - began
    if any(line.verdict is not Verdict.PASS for line in outcome.verdicts):
        console.print(f"\n[bold red]An hour does not agree[/] (after {seconds:.0f} s).")
        raise typer.Exit(1)
    console.print(f"\n[bold green]The demo succeeded[/] in {seconds:.0f} s.")


class _Titles:
    """Numbers the steps, and says how long each took when the next begins."""

    def __init__(self, console: Console) -> None:
        self._console, self._number, self._began = console, 0, time.monotonic()

    def __call__(self, text: str) -> None:
        now = time.monotonic()
        if self._number:
            self._console.print(f"  [dim]{now - self._began:.0f} s[/]")
        self._number, self._began = self._number + 1, now
        self._console.print(f"\n[bold]{self._number}. {text}[/]")


def _tell(console: Console, outcome: "control.Outcome") -> None:
    what = f"up in {outcome.seconds:.1f} s" if outcome.acted else "already up"
    console.print(f"  {outcome.service:<{NAME_WIDTH}} {what:<14} {outcome.address}")


def _start_streams(console: Console, settings: Settings) -> None:
    from pizzeria.demo import streams

    with console.status("  starting …"):
        started = streams.start(settings)
    for mode in streams.MODES:
        console.print(f"  {mode:<{NAME_WIDTH}} {'works' if mode in started else 'already at work'}")


def _place_orders(console: Console, settings: Settings, windows: "list[Window]") -> None:
    """Place them, and say how soon each stream had them."""
    from pizzeria.demo import live_orders, story, streams

    began = datetime.now(UTC)
    with console.status("  taking orders …") as line:
        orders = story.place_orders(
            settings, windows, lambda placed: line.update(f"  {placed:,} orders taken …")
        )
        took = datetime.now(UTC) - began
        console.print(
            f"  {orders:,} orders in {took / timedelta(seconds=1):.0f} s "
            f"({live_orders.ORDERS_PER_SECOND} a second), each a transaction of its own"
        )
        for mode in streams.MODES:
            delays = streams.await_orders(settings, mode, windows, began, orders)
            console.print(
                f"  {mode:<{NAME_WIDTH}} has all {len(delays):,}, each readable "
                f"{median(delays):.2f} s after its commit (median; slowest {max(delays):.2f} s)",
                soft_wrap=True,
            )


def _next_steps(console: Console, settings: Settings, order_id: int) -> None:
    console.print("\n[bold]Where to look next[/]")
    table = sql_name(pizzeria.ORDERS_ENRICHED_BATCH)
    lines = {
        "parity": f"{settings.airflow_url}{PARITY_URL}/ (Airflow's menu: Parity)",
        "sign in": f"user admin, password: grep AIRFLOW_UI {settings.secrets_path}",
        "Airflow": f"{settings.airflow_url}/dags/{pizzeria.HOURLY_DAG_ID}",
        "quality reports": f"{settings.airflow_url} (menu: Data Docs)",
        "the late order": f".venv/bin/lockstep parity diff --key {order_id}",
        "the rows": f'.venv/bin/lockstep sql "SELECT * FROM {table} LIMIT 5"',  # noqa: S608
        "what runs": ".venv/bin/lockstep status",
        "stop everything": "make down",
    }
    for name, text in lines.items():
        console.print(f"  {name:<{NAME_WIDTH - 8}} {text}", markup=False, soft_wrap=True)
