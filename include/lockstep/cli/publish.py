"""`lockstep publish`: the table that consumers read, what feeds it, and the switch.

Only the talking is here; publishing and switching are lockstep.publish's.
"""

import getpass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from lockstep.model.modes import BATCH, FEEDS, PUBLISHER, StreamMode
from lockstep.settings import Settings

WRITER_SECONDS_MAX = 60.0
"""For the publisher's step under way, or a switch."""
CUTOVERS_SHOWN = 5

app = typer.Typer(no_args_is_help=True)

Feed = StrEnum("Feed", [(feed.upper(), feed) for feed in FEEDS])


@app.command()
def status() -> None:
    """Show what feeds the published table, which streams could, and the last switches."""
    from lockstep.ledger import cutovers
    from lockstep.publish import formatting
    from lockstep.publish.table import fed_of, open_published
    from lockstep.supervise.observation import observe

    settings, console = Settings.load(), Console(highlight=False)
    if (table := open_published(settings)) is not None:
        fed = fed_of(table)
        far = "hourly table's version" if fed.feed == BATCH else "LSN"
        console.print(f"fed by {fed.feed}, published up to {far} {fed.reached}")
        console.print(f"{table.count():,} rows in version {table.version()}")
    else:
        console.print("nothing is published yet: `lockstep publish start`")
    finding = observe(settings, PUBLISHER).finding
    console.print(f"the publisher: {finding.health} ({escape(finding.why)})\n")
    console.print(_feeds_table(settings))
    for line in cutovers.lines(settings)[-CUTOVERS_SHOWN:]:
        console.print(formatting.of_cutover(line), markup=False, soft_wrap=True)


@app.command()
def start() -> None:
    """Start the publisher, a process of its own that goes on until `lockstep publish stop`.

    If it fails later, it is not started again: that is what the DAG is for.
    """
    from lockstep.supervise import launcher
    from lockstep.supervise.logs import log_of

    settings, console = Settings.load(), Console(soft_wrap=True, highlight=False)
    process = launcher.start(settings, [PUBLISHER], "started by `lockstep publish start`")
    console.print(f"the publisher works (pid {process.pid})")
    console.print(f"log: {log_of(settings, PUBLISHER).resolve()}")


@app.command()
def stop() -> None:
    """Stop the publisher after its step; the published table stays as it is."""
    from lockstep.supervise import launcher

    [one] = launcher.stop(Settings.load(), [PUBLISHER], "stopped by `lockstep publish stop`")
    how = "killed: it did not end in time" if one.killed else "stopped"
    typer.echo(f"the publisher {how if one.was_running else 'did not run'}")


@app.command()
def step() -> None:
    """Publish all that the feed has now, without a publisher; then end."""
    from lockstep.pipeline.plan import plan_named
    from lockstep.publish.step import step as publish_step

    settings, console = Settings.load(), Console(soft_wrap=True, highlight=False)
    plan = plan_named(settings.project, settings.names.pipeline)
    with console.status("publishing …"):
        while not (done := publish_step(settings, plan, WRITER_SECONDS_MAX)).is_all:
            pass
    console.print(f"published up to {done.reached} of {done.feed}")


@app.command()
def switch(
    feed: Annotated[Feed, typer.Argument(help="The hourly batch, or the mode of a stream.")],
    windows: Annotated[
        int | None,
        typer.Option(
            min=1, help="Verified windows asked for. Default: LOCKSTEP_CUTOVER_WINDOWS, 24."
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Let FEED feed the published table, in one commit; the ledger keeps who did it.

    A stream is refused unless it is verified through the last due window, for so many windows
    without a gap, runs, and has passed the last hourly run's cut. The batch never is.
    """
    from lockstep.pipeline.plan import plan_named
    from lockstep.publish import formatting
    from lockstep.publish import switch as cutover

    settings, console = Settings.load(), Console(soft_wrap=True, highlight=False)
    windows = windows or settings.cutover_windows
    plan = plan_named(settings.project, settings.names.pipeline)
    planned = cutover.plan_switch(settings, plan, feed.value, windows, datetime.now(UTC))
    console.print(formatting.of_planned(planned))
    if not yes:
        typer.confirm("switch?", abort=True)
    approved_by = f"{getpass.getuser()} by `lockstep publish switch`"
    with console.status("switching …"):
        line = cutover.switch(settings, plan, feed.value, windows, approved_by, datetime.now(UTC))
    console.print(formatting.of_cutover(line), markup=False)


def _feeds_table(settings: Settings) -> Table:
    """Each stream that was ever compared: whether it may feed the table now, or why not."""
    from lockstep.errors import LockstepError
    from lockstep.ledger import book
    from lockstep.pipeline.plan import plan_named
    from lockstep.publish import conditions

    table = Table(box=None, pad_edge=False)
    for title in ("stream", "may feed it", "because"):
        table.add_column(title)
    plan = plan_named(settings.project, settings.names.pipeline)
    compared = {line.mode for line in book.judged(settings)}
    for mode in (mode for mode in StreamMode if mode in compared):
        now = datetime.now(UTC)
        try:
            reach = conditions.require_verified(settings, plan, mode, settings.cutover_windows, now)
            conditions.require_running(settings, mode)
            table.add_row(mode, "[green]yes[/]", f"verified since {reach.since:%Y-%m-%d %H:%M}Z")
        except LockstepError as error:
            table.add_row(mode, "[yellow]no[/]", escape(getattr(error, "why", str(error))))
    return table
