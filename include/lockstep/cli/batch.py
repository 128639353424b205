"""`lockstep batch`: the hourly run by hand, over any window."""

from typing import Annotated

import typer

from lockstep.model.modes import ReadMode

app = typer.Typer(no_args_is_help=True)

Start = Annotated[str, typer.Option(help="Begin of the window, e.g. 2015-01-01T11:00:00Z.")]
End = Annotated[str, typer.Option(help="End of the window, not part of it.")]
Read = Annotated[ReadMode, typer.Option(help="Let PostgreSQL join (view), or Spark (tables).")]


@app.callback()
def _group() -> None:
    """Keep `run` a sub-command: typer would flatten a group of one."""


@app.command()
def run(start: Start, end: End, read: Read = ReadMode.VIEW) -> None:
    """Make the rows of [START, END) and replace them in the hourly Delta table.

    Times without a zone are UTC. Running it again replaces the same rows.
    """
    from lockstep.batch.command import run_named
    from lockstep.settings import Settings

    run_named(Settings.load().names.pipeline, start, end, read)
