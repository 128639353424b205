"""`lockstep maintain`: what grows is kept bounded, by hand. The work is lockstep.maintain's."""

import json
from dataclasses import asdict
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command(name="maintain")(maintain)


def maintain(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what it would do.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Remove files that no kept version needs, old logs and old runs of Airflow. No row is lost.

    Exits with 1 when something could not be done. What is busy is skipped, and done the next time.
    """
    from datetime import UTC, datetime

    from rich.console import Console

    from lockstep.maintain.outcome import State
    from lockstep.maintain.report import COLUMNS, as_table
    from lockstep.maintain.run import maintain as maintain_all
    from lockstep.settings import Settings

    console = Console(highlight=False)
    with console.status("maintaining …"):
        outcomes = list(maintain_all(Settings.load(), datetime.now(UTC), is_dry_run=dry_run))
    if as_json:
        Console(soft_wrap=True).print_json(json.dumps([asdict(one) for one in outcomes]))
    else:
        console.width = max(console.width, COLUMNS)
        console.print(as_table(outcomes, is_dry_run=dry_run))
    if any(one.state is State.FAILED for one in outcomes):
        raise typer.Exit(1)
