"""`lockstep parity`: compare the hourly table with the streams, and read the ledger."""

from typing import Annotated

import typer

from lockstep.cli.batch import End, Start
from lockstep.contracts import StreamMode

app = typer.Typer(no_args_is_help=True)

Modes = Annotated[
    list[StreamMode] | None,
    typer.Option("--mode", help="Only this mode; may be given again. Default: all that ever ran."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Machine-readable, with all evidence.")]


@app.command()
def check(start: Start, end: End, mode: Modes = None, as_json: AsJson = False) -> None:
    """Compare the orders of [START, END) at the hourly run's own cut, and name what differs.

    Exits with 0 when all agree, 1 when one fails, 2 when one could not be compared, 3 when a
    stream has not passed the cut yet. Each comparison is a line of the ledger.
    """
    from lockstep.parity.command import check as check_parity

    raise typer.Exit(check_parity(start, end, mode or [], as_json=as_json))


@app.command()
def diff(order: Annotated[int, typer.Option(help="The order's id.")]) -> None:
    """Show one order through every mode over time; a * marks what the look-up may have raced."""
    from rich.console import Console

    from lockstep.parity.order_story import story_of
    from lockstep.parity.report import story
    from lockstep.settings import Settings

    Console(highlight=False).print(story(order, story_of(Settings.load(), order)))


@app.command()
def status() -> None:
    """Show how far each mode is verified, and the newest verdicts."""
    from rich.console import Console

    from lockstep.ledger import book
    from lockstep.ledger.status import status_table
    from lockstep.settings import Settings

    Console(highlight=False).print(status_table(book.judged(Settings.load())))
