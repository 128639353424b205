"""`lockstep pipeline run`: a pipeline's hourly run by hand, over any window."""

from typing import Annotated

import typer

Name = Annotated[str, typer.Argument(metavar="NAME", help="The pipeline.")]
Start = Annotated[
    str, typer.Argument(metavar="[START]", help="Begin of the window, e.g. 2015-01-01T11:00:00Z.")
]
End = Annotated[str, typer.Argument(metavar="[END]", help="End of the window, not part of it.")]


def run(name: Name, start: Start = "", end: End = "") -> None:
    """Run the pipeline's query, and replace the rows of [START, END) in its hourly Delta table.

    Times without a zone are UTC. A pipeline without `time` has no window: its whole table is
    replaced. Running it again replaces the same rows.
    """
    from lockstep.batch.pipeline_command import run_named

    run_named(name, start, end)
