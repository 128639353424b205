"""`lockstep soak`: the long checks, in the background, and how far they are."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from lockstep.settings import Settings
from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from lockstep_tools.soak.report import Progress

LOG = "soak"

group = typer.Typer(no_args_is_help=True)

Dataset = Annotated[
    Path,
    typer.Argument(
        metavar="DIR", help="The data set to replay, as `lockstep orders load` takes it."
    ),
]
Only = Annotated[str, typer.Option("--only", help="Only scenarios with this in their name.")]


def register(app: typer.Typer) -> None:
    """Add the group to the application."""
    app.add_typer(group, name="soak", help="The long checks: crashes, seeds, an hour.")


@group.command()
def run(dataset: Dataset, only: Only = "") -> None:
    """Do what is left to do, here, until it is done. Exits with 1 when anything was found.

    It loads orders into this home's database and kills its services: use a home of its own.
    """
    from lockstep_tools.soak.runner import run as run_plan
    from lockstep_tools.soak.runner import whole_plan

    console = Console(soft_wrap=True, highlight=False, markup=False)
    report = run_plan(Settings.load(), whole_plan(dataset, only), console.print)
    if any(one.findings for one in report.scenarios):
        raise typer.Exit(1)


@group.command()
def start(dataset: Dataset, only: Only = "") -> None:
    """The same in the background; `lockstep soak status` shows how far it is."""
    from lockstep.host import process
    from lockstep.host.files import bounded_log

    settings = Settings.load()
    lockstep = Path(sys.executable).with_name("lockstep")
    command = [str(lockstep), "soak", "run", str(dataset.absolute())]
    log = bounded_log(settings.home, LOG)
    launch = process.Launch([*command, "--only", only], log, os.environ, Path.cwd())
    record = process.spawn(LOG, launch)
    Console(soft_wrap=True, highlight=False).print(f"soak at work (pid {record.pid}), log: {log}")


@group.command()
def status() -> None:
    """Show each scenario of the report. Exits with 1 when anything was found."""
    from lockstep_tools.soak.report import Report

    report = Report(Settings.load())
    console = Console(highlight=False)
    console.print(_table(report.scenarios))
    console.print(f"report: {report.path}", soft_wrap=True)
    for one in report.scenarios:
        for finding in one.findings:
            console.print(escape(f"{one.name}, seed {one.seed}, {finding}"), soft_wrap=True)
    if any(one.findings for one in report.scenarios):
        raise typer.Exit(1)


def _table(scenarios: "list[Progress]") -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("scenario", "seed", "state", "steps", "minutes", "commit"):
        right = title in ("seed", "steps", "minutes")
        table.add_column(title, justify="right" if right else "left")
    for one in scenarios:
        table.add_row(
            one.name,
            str(one.seed),
            one.state,
            f"{one.done}/{one.total}",
            f"{one.seconds / 60:.1f}",
            " ".join(one.commits),
        )
    return table
