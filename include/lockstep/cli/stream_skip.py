"""`lockstep stream skip`: which stretch is meant, and what giving it up touches.

Only the talking is here; giving up is lockstep.streams.skip's.
"""

import re
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from lockstep.model.modes import StreamMode
from lockstep.pipeline.names import sql_name
from lockstep.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockstep.sources.given_up import GivenUpRecords

SHOWN_GROUPS = 20
"""A screen of them; the quarantine's table has all."""
END = "end"


def skip(
    offsets: Annotated[
        str, typer.Argument(metavar="OFFSET|FIRST-LAST", help="As the stream's error names it.")
    ],
    until: Annotated[
        str | None,
        typer.Option(metavar="OFFSET|end", help="The last offset; end: of the topic as it is now."),
    ] = None,
) -> None:
    """Give up records of the change topic that cannot be read, and note the damage.

    What can be read between these offsets is left alone. The transactions are then released without
    what is given up, also by streams that run; one that has stopped at a record must be started.
    """
    from lockstep.streams.skip import skip_records

    settings, console = Settings.load(), Console(soft_wrap=True, highlight=False, markup=False)
    first, last = _stretch(offsets, until)
    with console.status(f"reading the change topic from offset {first} on …"):
        given_up = skip_records(settings, first, last)
    _print(console, settings, given_up)
    if stopped := _stopped_by_a_record(settings):
        console.print(
            f"stopped by a record: start with `lockstep stream start {' '.join(stopped)}`, or "
            "Clear their DAGs' task"
        )


def _stretch(offsets: str, until: str | None) -> tuple[int, int | None]:
    """The first and the last offset; None for the topic's end."""
    found = re.fullmatch(r"(\d+)(?:-(\d+))?", offsets)
    if found is None:
        raise typer.BadParameter(f"{offsets!r} is neither an offset nor FIRST-LAST")
    first, last = found.groups()
    if until is None:
        return int(first), int(last or first)
    if last is not None:
        raise typer.BadParameter(f"{offsets!r} names the last offset already: leave out --until")
    if not re.fullmatch(rf"\d+|{END}", until):
        raise typer.BadParameter(f"--until {until!r} is neither an offset nor `{END}`")
    return int(first), None if until == END else int(until)


def _print(console: Console, settings: Settings, given_up: "Sequence[GivenUpRecords]") -> None:
    """What was lost of each table and hour, in a line."""
    from lockstep.parity.given_up import count, looked_up, named
    from lockstep.pipeline.plan import plan_named

    plan = plan_named(settings.project, settings.names.pipeline)
    total = sum(one.records for one in given_up)
    is_or_are = "is" if total == 1 else "are"
    console.print(f"{count(total, 'record')} {is_or_are} given up ({given_up[0].reason})")
    for one in given_up[:SHOWN_GROUPS]:
        console.print(f"  {named(one)}, {_windows(one, looked_up(plan))}")
    if len(given_up) > SHOWN_GROUPS:
        table = sql_name(settings.names.quarantine)
        console.print(f"and more: {len(given_up):,} rows in {table}, see `lockstep sql`")
    console.print("streams that run pass them from now on, and parity names them")


def _windows(one: "GivenUpRecords", dimensions: set[str]) -> str:
    """Which windows it touches, as parity.given_up judges them.

    dimensions: the tables that the facts refer to.
    """
    if one.hour is not None and one.is_order_hour:
        return f"window {one.hour:%Y-%m-%d %H:%M} UTC"
    if one.committed_first is None:
        return "windows unknown"
    times = f"{one.committed_first:%Y-%m-%d %H:%M:%S} to {one.committed_last:%H:%M:%S} UTC"
    later = " and later ones" if one.table in dimensions else ""
    return f"windows open at their commits, {times}{later}"


def _stopped_by_a_record(settings: Settings) -> list[str]:
    """The modes that no driver runs, and whose last one named a record that cannot be read."""
    from lockstep.cdc.errors import PoisonedRecordError
    from lockstep.supervise.observation import observe

    seen = [observe(settings, mode) for mode in StreamMode]
    errors = {one.mode: one.heartbeat.error for one in seen if not one.holder and one.heartbeat}
    return [
        mode
        for mode, error in errors.items()
        if error is not None and error.name == PoisonedRecordError.__name__
    ]
