"""`lockstep pipeline test`: runs a pipeline's own tests. Only the talking is here."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from lockstep.pipeline.errors import shown_value
from lockstep.pipeline.row_keys import named

if TYPE_CHECKING:
    from lockstep.histories.steps import Failure, Outcome
    from lockstep.pipeline.plan import Plan


def test(name: Annotated[str, typer.Argument(metavar="NAME", help="The pipeline.")]) -> None:
    """Run the tests of the pipeline's folder, tests/*.toml, as a stream and as the hourly run.

    Each is a list of whole transactions, with the rows that the result has after them. No database
    is asked. Exits with 1 when a row is not as expected, in either, and with 2 for a test that
    cannot be read.
    """
    from lockstep.histories.steps import run_named
    from lockstep.pipeline.errors import PipelineError

    plan, found = run_named(name)
    if not found:
        raise PipelineError(
            f"pipeline {name} has no tests: write include/sql/{name}/tests/SOMETHING.toml, as "
            "docs/pipelines.md shows"
        )
    console = Console(highlight=False)
    for one in found:
        _show(console, plan, one)
    if any(one.failures for one in found):
        raise typer.Exit(1)


def _show(console: Console, plan: "Plan", one: "Outcome") -> None:
    if not one.failures:
        console.print(f"{one.file}: {one.rows:,} rows, all as expected", markup=False)
    for failure in one.failures:
        key = named(plan.key, failure.key)
        console.print(f"{one.file}:{failure.line}: {key} is not as expected", markup=False)
        console.print(_table(failure))


def _table(failure: "Failure") -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("column", "expected", "hourly run", "stream"):
        table.add_column(title, overflow="fold")
    sides = (failure.batch, failure.stream)
    if None in sides:
        wanted = failure.expected if isinstance(failure.expected, str) else "a row"
        table.add_row("", wanted, *("no row" if side is None else "a row" for side in sides))
        return table
    for name in failure.batch:
        words = isinstance(failure.expected, str)
        wanted = failure.expected if words else shown_value(failure.expected[name])
        table.add_row(name, wanted, *(shown_value(side[name]) for side in sides))
    return table
