"""`lockstep pipeline check --rows`: the view compared with the query. Only the talking is here."""

from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.table import Table

from lockstep.errors import ConfigurationError

if TYPE_CHECKING:
    from lockstep.batch.view_check import DifferentRow, ViewCheck


def check_rows(name: str, start: str, end: str) -> None:
    """Print how the view and the query of a pipeline differ in a window; exit with 1 if they do."""
    from lockstep.batch.view_check import check_named

    if not name:
        raise ConfigurationError("--rows compares one pipeline: name it")
    plan, found = check_named(name, start, end)
    _show(Console(highlight=False), plan.key, found)
    if not found.is_same:
        raise typer.Exit(1)


def _show(console: Console, key: tuple[str, ...], found: "ViewCheck") -> None:
    if found.is_same:
        console.print(f"view and query have the same {found.rows:,} rows")
        return
    console.print(
        f"of {found.rows:,} rows {found.differing:,} differ, {found.only_in_view:,} are in the "
        f"view alone, {found.only_in_query:,} in the query alone; the first of each:"
    )
    table = Table(box=None, pad_edge=False)
    for title in (", ".join(key), "column", "view", "query"):
        table.add_column(title, overflow="fold")
    for row in found.examples:
        for cells in _cells(row):
            table.add_row(*cells)
    console.print(table)


def _cells(row: "DifferentRow") -> list[tuple[str, str, str, str]]:
    shown = ", ".join(map(str, row.key))
    if row.view is None or row.query is None:
        view, query = ("", "no row") if row.query is None else ("no row", "")
        return [(shown, "", view, query)]
    return [(shown, name, str(row.view[name]), str(row.query[name])) for name in row.view]
