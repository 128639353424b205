"""`lockstep pipeline preview`: the first rows of a query. Only the talking is here."""

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from lockstep.batch.preview import Preview


def preview(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The pipeline.")],
    start: Annotated[
        str, typer.Argument(metavar="[START]", help="Begin of the window, ISO 8601.")
    ] = "",
    end: Annotated[str, typer.Argument(metavar="[END]", help="Not part of the window.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Rows at the most.")] = 20,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch",
            help="Keep the session, and show them again whenever a file of the pipeline or of a "
            "source is saved. Ctrl-C ends it.",
        ),
    ] = False,
) -> None:
    """Show the first rows that the query gives for a window of the database. Writes nothing.

    A pipeline without a time has no window. result.lock need not be there yet.
    """
    from rich.console import Console

    from lockstep.batch.preview import preview_named, previews
    from lockstep.errors import LockstepError

    console = Console(highlight=False)
    if not watch:
        _show(console, preview_named(name, start, end, limit))
        return
    with suppress(KeyboardInterrupt):
        for found in previews(name, start, end, limit):
            if isinstance(found, LockstepError):
                console.print(f"error: {found}", style="red", markup=False, soft_wrap=True)
            else:
                _show(console, found)
                console.print(f"in {found.seconds:.1f} s")
            console.print("waiting for a change; Ctrl-C ends\n", style="dim")


def _show(console: "Console", found: "Preview") -> None:
    from rich.markup import escape
    from rich.table import Table

    if not found.rows:
        console.print("the query gives no row there")
        return
    table = Table(box=None, pad_edge=False)
    for column in found.plan.outputs:
        table.add_column(escape(column), overflow="fold")
    for row in found.rows:
        table.add_row(*(escape("" if value is None else str(value)) for value in row.values()))
    console.print(table)
