"""`lockstep up | down | status | logs`: the embedded stack from the command line.

Only the talking is here; what happens is in lockstep.devstack.control.
"""

import json
import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from lockstep.errors import ServiceError
from lockstep.settings import Settings

if TYPE_CHECKING:
    from lockstep.supervise.observation import Observation

TABLE_COLUMNS = 100
INTERRUPTED = 130  # what shells give for Ctrl-C
FOLLOW_PAUSE_SECONDS = 0.2
MINUTE, HOUR, DAY = 60, 3600, 86400


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command()(up)
    app.command()(down)
    app.command()(status)
    app.command()(logs)


def up(
    only: Annotated[
        list[str] | None,
        typer.Option(help="Start only this service and what it needs; may be repeated."),
    ] = None,
) -> None:
    """Start the embedded services that do not run yet, and wait until they answer."""
    from lockstep.devstack import control

    console, started = Console(), time.monotonic()

    def show(outcome: control.Outcome) -> None:
        what = f"up in {outcome.seconds:.1f} s" if outcome.acted else "already up"
        console.print(f"  {outcome.service:<22} {what:<14} {outcome.address}", highlight=False)

    try:
        with console.status("starting …"):
            settings = control.up(Settings.load(), only or (), show)
    except KeyboardInterrupt:
        console.print("interrupted: `lockstep status` shows what runs, `lockstep down` stops it")
        os._exit(INTERRUPTED)  # not waiting for the threads that wait for services
    console.print(f"up after {time.monotonic() - started:.1f} s in {settings.home}", soft_wrap=True)


def down() -> None:
    """Stop every stream and every service, gracefully, in reverse order. Data stays.

    Streams and the publisher stay stopped when the stack is up again: who wants them starts them.
    """
    from lockstep.devstack import control
    from lockstep.supervise import launcher

    console, settings = Console(), Settings.load()

    def show(outcome: control.Outcome) -> None:
        if outcome.acted:
            console.print(f"  {outcome.service:<22} stopped in {outcome.seconds:.1f} s")

    with console.status("stopping …"):
        streams = launcher.stop_all(settings, "stopped by `lockstep down`")
        for stream in streams:
            console.print(f"  stream {stream.mode:<15} {'killed' if stream.killed else 'stopped'}")
        control.down(settings, show)
    console.print("everything is stopped")
    if streams:
        console.print("streams stay stopped after `up`, until they are started or their DAGs run")


def status(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Show each service and each stream. Exits with 1 when one that should run does not work."""
    from lockstep.devstack import control
    from lockstep.supervise.observation import observe_started

    settings = Settings.load()
    found, streams = control.statuses(settings), observe_started(settings)
    if as_json:
        entries = [*(asdict(one) for one in found), *(_stream_entry(one) for one in streams)]
        Console(soft_wrap=True).print_json(json.dumps(entries))
    else:
        _print_table(found)
        _print_streams(streams)
    if any(one.wrong for one in found) or any(one.finding.health.wrong for one in streams):
        raise typer.Exit(1)


def _print_streams(streams: list["Observation"]) -> None:
    from lockstep.cli import stream

    if streams:
        typer.echo()
        stream.print_table(streams)


def _stream_entry(one: "Observation") -> dict:
    """A stream with a service's keys, so that programs read both alike; and all that is known."""
    from lockstep.cli import stream
    from lockstep.supervise.health import Health

    beat, health = one.heartbeat if one.holder else None, one.finding.health
    return {
        "service": f"stream-{one.mode}",
        "state": "running" if health is Health.OK else health,
        "address": "",
        "pid": one.holder,
        "uptime_seconds": (one.at - beat.started_at).total_seconds() if beat else None,
        "memory_bytes": None,
        "problem": one.finding.why if health.wrong else None,
        "stream": stream.plain(one),
    }


def _print_table(found: list) -> None:
    colours = {"running": "green", "stopped": "dim", "crashed": "bold red"}
    table = Table(box=None, pad_edge=False)
    for title in ("service", "state", "pid", "address", "uptime", "memory"):
        justify = "right" if title in ("pid", "memory") else "left"
        table.add_column(title, justify=justify, no_wrap=True)
    for one in found:
        table.add_row(
            one.service,
            f"[{colours.get(one.state, 'yellow')}]{one.state}[/]",
            str(one.pid or ""),
            one.address,
            "" if one.uptime_seconds is None else _duration(one.uptime_seconds),
            "" if one.memory_bytes is None else f"{one.memory_bytes / 1024**2:,.0f} MB",
        )
    console = Console()
    console.width = max(console.width, TABLE_COLUMNS)
    console.print(table)
    for one in found:
        if one.problem:
            console.print(f"[bold]{one.service}[/]: {escape(one.problem)}", highlight=False)


def _duration(seconds: float) -> str:
    """The two largest units that matter: 42 s, 3 min 5 s, 2 h 7 min, 4 d 3 h."""
    whole = int(seconds)
    for unit, name, smaller, smaller_name in (
        (DAY, "d", HOUR, "h"),
        (HOUR, "h", MINUTE, "min"),
        (MINUTE, "min", 1, "s"),
    ):
        if whole >= unit:
            return f"{whole // unit} {name} {whole % unit // smaller} {smaller_name}"
    return f"{whole} s"


def logs(
    service: Annotated[str, typer.Argument(help="A service as `lockstep status` names it.")],
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C.")] = False,
    lines: Annotated[int, typer.Option(min=0, help="Lines from the end.")] = 100,
) -> None:
    """Show the end of a service's log."""
    from lockstep.devstack import control
    from lockstep.host.files import last_lines, log_path

    if service not in control.service_names():
        known = ", ".join(control.service_names())
        raise ServiceError(f"there is no service {service}; there are: {known}")
    path = log_path(Settings.load().home, service)
    if not path.exists():
        raise ServiceError(f"{service} has no log yet ({path}): it was never started")
    size = path.stat().st_size
    for line in last_lines(path, lines):
        typer.echo(line)
    if follow:
        _follow(path, size)


def _follow(path: Path, position: int) -> None:
    """Print what is appended, from the start again when the log was put aside."""
    try:
        while True:
            with path.open(encoding="utf-8", errors="replace") as file:
                position = 0 if path.stat().st_size < position else position
                file.seek(position)
                typer.echo(file.read(), nl=False)
                position = file.tell()
            time.sleep(FOLLOW_PAUSE_SECONDS)
    except KeyboardInterrupt:
        return
