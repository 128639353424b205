"""`lockstep stream`: start, stop, look at and rebuild the streams.

Only the talking is here; starting, stopping and judging are lockstep.supervise's.
"""

import json
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from lockstep.cli.stream_skip import skip
from lockstep.model.modes import HISTORY, StreamMode
from lockstep.settings import Settings

if TYPE_CHECKING:
    from lockstep.supervise.heartbeat import Heartbeat, IncompleteTransaction
    from lockstep.supervise.observation import Observation

TABLE_COLUMNS = 100
UNKNOWN = ""
COLOURS = {"ok": "green", "starting": "cyan", "stopped": "dim", "lagging": "yellow"}
WRONG_COLOUR = "bold red"

app = typer.Typer(no_args_is_help=True)

ModeOrAll = StrEnum("ModeOrAll", [*StreamMode, "all"])
Modes = Annotated[list[ModeOrAll], typer.Argument(metavar="MODE...|all", help="Streams by mode.")]


@app.command()
def start(modes: Modes) -> None:
    """Start these streams in the driver of their source, and wait until each works.

    The driver is started where none runs, and goes on by itself; what ends it is `lockstep stream
    stop` of all it hosts. A stream that runs already is refused. If it fails later, it is not
    started again: that is what the DAGs stream_… are for.
    """
    from lockstep.supervise import source_driver
    from lockstep.supervise.logs import log_of

    settings, console = Settings.load(), Console(soft_wrap=True)
    chosen = _chosen(settings, modes)
    with console.status(f"starting {', '.join(chosen)} …"):
        pid = source_driver.start(settings, chosen, "started by `lockstep stream start`")
    for mode in chosen:
        console.print(f"{mode} works (pid {pid})", highlight=False)
    log = log_of(settings, chosen[0]).resolve()
    console.print(f"their driver's log: {log}", highlight=False)


@app.command()
def stop(modes: Modes) -> None:
    """Stop these streams after the write under way; others of their driver go on."""
    from lockstep.supervise import launcher

    settings, console = Settings.load(), Console(soft_wrap=True)
    chosen = _chosen(settings, modes)
    with console.status(f"stopping {', '.join(chosen)} …"):
        outcomes = launcher.stop(settings, chosen, "stopped by `lockstep stream stop`")
    for one in outcomes:
        how = "killed: it did not end in time" if one.killed else "stopped"
        console.print(f"{one.mode} {how if one.was_running else 'did not run'}", highlight=False)


@app.command()
def status(
    modes: Annotated[
        list[ModeOrAll] | None, typer.Argument(metavar="[MODE...|all]", help="Default: all.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Show each stream. Exits with 1 when one that should run does not, or does not work."""
    from lockstep.supervise.observation import observe

    settings = Settings.load()
    chosen = _chosen(settings, modes or [ModeOrAll.all])
    seen = [observe(settings, mode) for mode in chosen]
    history = observe(settings, HISTORY)
    if history.holder is not None and len(chosen) == len(settings.names.modes):
        seen.append(history)
    if as_json:
        Console(soft_wrap=True).print_json(json.dumps([plain(one) for one in seen]))
    else:
        print_table(seen)
    if any(one.finding.health.wrong for one in seen):
        raise typer.Exit(1)


app.command()(skip)


@app.command()
def rebuild(modes: Modes) -> None:
    """Rebuild these streams' tables from the change topic, each next to the old one; then switch.

    The streams are stopped and stay so. Until the switch, one commit, readers see the old table.
    """
    from lockstep.streams.rebuild import rebuild as rebuild_mode

    settings, console = Settings.load(), Console(soft_wrap=True)
    for mode in _chosen(settings, modes):
        with console.status(f"{mode} …") as line:
            made = rebuild_mode(
                settings,
                StreamMode(mode),
                lambda at, end, line=line, mode=mode: line.update(f"{mode}: {at:,} of {end:,} …"),
            )
        console.print(f"{mode} is rebuilt: {made.rows:,} rows, up to LSN {made.frontier}")
    console.print("start them with `lockstep stream start`, or Clear their DAGs' task")


def _chosen(settings: Settings, modes: list[ModeOrAll]) -> list[str]:
    """The modes meant, each once, in their usual order; all: those of the manifest."""
    named = {str(mode) for mode in modes}
    if ModeOrAll.all in named:
        named.update(map(str, settings.names.modes))
    return [str(mode) for mode in StreamMode if mode in named]


def plain(one: "Observation") -> dict:
    """JSON values: what the files say, and the judgement."""
    import msgspec

    values = msgspec.to_builtins(one)
    return {**values.pop("finding"), **values}


def print_table(seen: list["Observation"]) -> None:
    """One line a stream, then why each that is not well is so; for `lockstep status`, too."""
    from lockstep.supervise.health import Health

    table = Table(box=None, pad_edge=False)
    for title in ("stream", "health", "pid", "rows", "rows/s", "lag", "p50", "p99", "restarts"):
        justify = "left" if title in ("stream", "health") else "right"
        table.add_column(title, justify=justify, no_wrap=True)
    for one in seen:
        health = one.finding.health
        table.add_row(
            one.mode,
            f"[{COLOURS.get(health, WRONG_COLOUR)}]{health}[/]",
            str(one.holder or ""),
            *_figures(one.mode, one.heartbeat if one.holder else None),
            str(one.desired.restarts) if one.desired else "",
        )
    console = Console()
    console.width = max(console.width, TABLE_COLUMNS)
    console.print(table)
    for one in seen:
        if one.finding.health is not Health.OK:
            console.print(f"[bold]{one.mode}[/]: {escape(one.finding.why)}", highlight=False)
        for transaction in one.heartbeat.incomplete if one.holder and one.heartbeat else ():
            console.print(f"[bold]{one.mode}[/]: {_incomplete(transaction)}", highlight=False)


def _incomplete(transaction: "IncompleteTransaction") -> str:
    """What of a transaction is missing, and for how long."""
    age = f"transaction {transaction.tx_id} is incomplete for {transaction.age_seconds:,.0f} s: "
    if transaction.changes_expected is None:
        return f"{age}its end is missing, {transaction.changes_seen} changes are there"
    missing = ", ".join(f"{count} of {table}" for table, count in transaction.missing.items())
    return (
        f"{age}{transaction.changes_seen} of {transaction.changes_expected} changes are there "
        f"(missing: {missing or 'unknown'}); nothing after it is written"
    )


def _figures(mode: str, beat: "Heartbeat | None") -> tuple[str, ...]:
    """Rows, rows a second, lag, and the latency's median and 99th percentile.

    The history's rows are no result, and are not counted.
    """
    if beat is None:
        return (UNKNOWN,) * 5
    rows = f"{beat.rows_total:,}", f"{beat.rows_per_second:,.1f}"
    return (
        *((UNKNOWN,) * 2 if mode == HISTORY else rows),
        _seconds(beat.lag_seconds),
        _seconds(beat.latency.p50 if beat.latency else None),
        _seconds(beat.latency.p99 if beat.latency else None),
    )


def _seconds(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.2f} s"
