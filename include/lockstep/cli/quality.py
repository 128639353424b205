"""`lockstep quality`: judge a window's rows, and build its Data Docs."""

import typer

from lockstep.cli.batch import End, Start
from lockstep.cli.parity import Modes

app = typer.Typer(no_args_is_help=True)


@app.command()
def hourly(start: Start, end: End) -> None:
    """Check the rows of [START, END) in the hourly table, as the hourly DAG does.

    Exits with 0 when no check failed (warnings are printed), 1 when one did, 2 when the window
    could not be checked.
    """
    from lockstep.quality.command import check_hourly

    raise typer.Exit(check_hourly(start, end))


@app.command()
def stream(start: Start, end: End, mode: Modes = None) -> None:
    """Check the changes of [START, END)'s rows in the streams, and the verdict on them.

    It is about the window's newest comparison with each mode, and the changes up to the stream's
    frontier of then. Exit codes are those of `quality hourly`.
    """
    from lockstep.quality.command import check_streams

    raise typer.Exit(check_streams(start, end, mode or []))
