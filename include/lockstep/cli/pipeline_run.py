"""`lockstep pipeline run`: a pipeline's hourly run by hand, over any window."""

from typing import Annotated

import typer

from lockstep.cli.batch import Read
from lockstep.model.modes import ReadMode

Name = Annotated[str, typer.Argument(metavar="NAME", help="The pipeline.")]
Start = Annotated[
    str, typer.Argument(metavar="[START]", help="Begin of the window, e.g. 2015-01-01T11:00:00Z.")
]
End = Annotated[str, typer.Argument(metavar="[END]", help="End of the window, not part of it.")]


def run(name: Name, start: Start = "", end: End = "", read: Read = ReadMode.TABLES) -> None:
    """Make the pipeline's rows of [START, END) those of its hourly Delta table.

    They are made by its query over the tables, or read from the view that its manifest names.

    Times without a zone are UTC. A pipeline without `time` has no window: its whole table is
    replaced. Running it again replaces the same rows.
    """
    from lockstep.batch.command import run_named

    run_named(name, start, end, read)
