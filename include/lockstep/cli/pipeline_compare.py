"""`lockstep pipeline compare`: a window of a pipeline's hourly table against a stream.

Only the talking is here; comparing is lockstep.parity's.
"""

from typing import Annotated

import typer

from lockstep.model.modes import StreamMode
from lockstep.pipeline.modes import Mode


def compare(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The pipeline.")],
    mode: Annotated[Mode, typer.Argument(metavar="MODE", help="One of the pipeline's modes.")],
    start: Annotated[
        str, typer.Argument(metavar="START", help="Begin of the window, e.g. 2015-01-01T11:00Z.")
    ],
    end: Annotated[str, typer.Argument(metavar="END", help="End of the window, not part of it.")],
) -> None:
    """Compare the rows of [START, END) at the hourly run's own cut, and name what differs.

    Exits with 0 when all agree, or differ by what the pipeline tolerates; 1 when the window fails;
    2 when it cannot be compared; 3 when the stream has not passed the cut yet. The pipeline's
    ledger gets a line.
    """
    from lockstep.parity.command import check

    raise typer.Exit(check(start, end, [StreamMode(mode)], pipeline=name))
