"""`lockstep bench`: benchmarks, each beside its peer in one run."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from lockstep.settings import Settings

if TYPE_CHECKING:
    from lockstep.bench.batch import Measured

app = typer.Typer(no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Keep `batch` a sub-command: typer would flatten a group of one."""


@app.command("batch")
def bench_batch(
    orders: Annotated[
        int, typer.Option(min=24, help="Orders of the day that is read.")
    ] = 1_000_000,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; medians are reported.")] = 5,
) -> None:
    """The hourly run in both read modes beside PostgreSQL's COPY of the same query."""
    from lockstep.bench.batch import measure
    from lockstep.bench.database import filled_database
    from lockstep.shop.bulk import START

    console = Console(highlight=False)
    console.print(f"preparing a PostgreSQL of its own with {orders:,} orders")
    with filled_database(Settings.load(), orders) as settings:
        measured = measure(settings, START, orders, rounds, console.print)
    console.print(_table(measured, rounds))
    console.print(
        f"Paid once a process: session start {measured.session_seconds:.1f} s, and the first "
        f"hour of a cold JVM {measured.cold_hour_seconds:.1f} s.\n"
        "Peak memory of Python and JVM together while all orders were read: "
        + ", ".join(f"{mode} {mib:,.0f} MiB" for mode, mib in measured.peak_mib.items())
        + "."
    )


def _table(measured: "Measured", rounds: int) -> Table:
    from lockstep.bench.batch import ALL, COPY, NEW_HOUR

    table = Table(title=f"medians of {rounds} rounds", title_justify="left")
    for name in ("what", "rows"):
        table.add_column(name, justify="left" if name == "what" else "right")
    for name in ("how", "seconds", "fastest to slowest", "rows/s", "times COPY"):
        table.add_column(name, justify="left" if name == "how" else "right")
    for (what, how), seconds in sorted(measured.seconds.items()):
        median, rows = measured.median(what, how), measured.rows(what)
        peer = measured.median(ALL if what == ALL else NEW_HOUR, COPY)
        table.add_row(
            what,
            f"{rows:,}",
            how,
            f"{median:.2f}",
            f"{min(seconds):.2f} to {max(seconds):.2f}",
            f"{rows / median:,.0f}",
            f"{median / peer:.2f}",
        )
    return table
