"""`lockstep parity`: compare the hourly table with the streams, repair it, and read the ledger."""

from pathlib import Path
from typing import Annotated

import typer

from lockstep.cli.batch import End, Start
from lockstep.model.modes import StreamMode

app = typer.Typer(no_args_is_help=True)

Modes = Annotated[
    list[StreamMode] | None,
    typer.Option("--mode", help="Only this mode; may be given again. Default: all that ever ran."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Machine-readable, with all evidence.")]


@app.command()
def check(start: Start, end: End, mode: Modes = None, as_json: AsJson = False) -> None:
    """Compare the rows of [START, END) at the hourly run's own cut, and name what differs.

    Exits with 0 when all agree, 1 when one fails, 2 when one could not be compared, 3 when a
    stream has not passed the cut yet. Each comparison is a line of the ledger.
    """
    from lockstep.parity.command import check as check_parity

    raise typer.Exit(check_parity(start, end, mode or [], as_json=as_json))


@app.command()
def repair(
    start: Start,
    end: End,
    yes: Annotated[bool, typer.Option("--yes", help="Merge them without asking.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show them.")] = False,
) -> None:
    """Merge the rows of [START, END) that changed after the hourly run's cut, and no others.

    Shows each of them first, and how many other rows a new run of the hour would change. Killed
    at any moment it has changed nothing; repeated it changes nothing more.
    """
    from lockstep.repair.command import repair as repair_rows
    from lockstep.repair.command import show

    if dry_run:
        show(start, end)
        return
    question = "Merge these rows into the hourly table?"
    raise typer.Exit(repair_rows(start, end, is_approved=lambda: yes or typer.confirm(question)))


@app.command()
def diff(
    key: Annotated[
        str, typer.Option(help="The row's key: its plain value; of several columns a JSON array.")
    ],
) -> None:
    """Show one row through every mode over time; a * marks what the look-up may have raced."""
    from rich.console import Console

    from lockstep.parity.report import story
    from lockstep.parity.row_story import story_of
    from lockstep.pipeline.plan import plan_named
    from lockstep.settings import Settings

    settings = Settings.load()
    plan = plan_named(settings.project, settings.names.pipeline)
    row = plan.row_keys.read(key)
    shown = plan.row_keys.shown(plan.row_keys.text(row))
    Console(highlight=False).print(story(shown, story_of(settings, plan, row)))


@app.command()
def report(
    html: Annotated[Path, typer.Option(help="The file to write; one that is there is replaced.")],
    start: Annotated[str, typer.Option(help="Begin of the hours, e.g. 2015-01-01T11:00Z.")] = "",
    end: Annotated[str, typer.Option(help="End of the hours, not part of them.")] = "",
) -> None:
    """Write the page Parity, with each hour's differing rows, to one HTML file.

    Of the hours of [START, END); by default of the last day that was compared. It needs no server
    and has no scripts: to keep with a release, or to send.
    """
    from rich.console import Console

    from lockstep.errors import ConfigurationError
    from lockstep.model.window import Window
    from lockstep.parity_pages.report import report as report_of
    from lockstep.settings import Settings

    window = Window.parse(start, end) if start or end else None
    text = report_of(Settings.load(), window)
    try:
        html.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"the report cannot be written: {error}") from error
    Console(soft_wrap=True, highlight=False, markup=False).print(html.resolve())


@app.command()
def status() -> None:
    """Show how far each mode is verified, the newest verdicts, and why the last that failed did."""
    from rich.console import Console

    from lockstep.ledger import book
    from lockstep.ledger.status import last_failed, status_table
    from lockstep.pipeline.plan import plan_named
    from lockstep.settings import Settings

    settings = Settings.load()
    version = plan_named(settings.project, settings.names.pipeline).version
    lines, console = book.judged(settings), Console(highlight=False)
    console.print(status_table(lines, version))
    for failed in last_failed(lines):
        of_window = book.lines(settings, failed.mode, since=failed.start)
        reason = next(one.reason for one in of_window if one.checked_at == failed.checked_at)
        text = f"{failed.mode}, the window from {failed.start:%Y-%m-%d %H:%M}Z: {reason}"
        console.print(text, markup=False, soft_wrap=True)
