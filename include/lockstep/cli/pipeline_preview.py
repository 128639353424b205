"""`lockstep pipeline preview`: the first rows of a query. Only the talking is here."""

from typing import Annotated

import typer


def preview(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The pipeline.")],
    start: Annotated[
        str, typer.Argument(metavar="[START]", help="Begin of the window, ISO 8601.")
    ] = "",
    end: Annotated[str, typer.Argument(metavar="[END]", help="Not part of the window.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Rows at the most.")] = 20,
) -> None:
    """Show the first rows that the query gives for a window of the database. Writes nothing.

    A pipeline without a time has no window. result.lock need not be there yet.
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from lockstep.batch.preview import preview_named

    plan, rows = preview_named(name, start, end, limit)
    if not rows:
        typer.echo("the query gives no row there")
        return
    table = Table(box=None, pad_edge=False)
    for column in plan.outputs:
        table.add_column(escape(column), overflow="fold")
    for row in rows:
        table.add_row(*(escape("" if value is None else str(value)) for value in row.values()))
    Console(highlight=False).print(table)
