"""`lockstep pipeline stream`, `lockstep source stream | start | stop`: streams by their folders.

Only the talking is here; the driver is lockstep.streams.driver's, supervision lockstep.supervise's.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from lockstep.pipeline.modes import Mode
from lockstep.pipeline.names import address
from lockstep.settings import Settings

if TYPE_CHECKING:
    from lockstep.pipeline.plan import Plan

SourceName = Annotated[str, typer.Argument(metavar="NAME", help="What the source is called.")]
_IN_A_TERMINAL = "runs in a terminal"


def stream(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The pipeline.")],
    modes: Annotated[list[Mode], typer.Argument(help="Modes of its pipeline.toml.")],
) -> None:
    """Run streams of a pipeline, in one process, until Ctrl-C or SIGTERM.

    Each goes on where its Delta table ends. The same process writes the history of the source,
    unless another one does. A stream that fails ends alone, with an error at the end.
    """
    from lockstep.pipeline.plan import plan_named

    settings = Settings.load()
    plan = plan_named(settings.project, name)
    _run(settings, [(plan, mode) for mode in dict.fromkeys(modes)])


def source_stream(name: SourceName) -> None:
    """Run all streams of a source's pipelines, in one process, until Ctrl-C or SIGTERM.

    They are the `modes` of each pipeline.toml; otherwise as `lockstep pipeline stream`. A pipeline
    with a problem is an error: nothing starts.
    """
    settings = Settings.load()
    _run(settings, _streams_of(settings, name))


def source_start(name: SourceName) -> None:
    """Start all streams of a source's pipelines in its driver, and wait until each works.

    Those that run already are left as they are. The driver goes on by itself; `lockstep source
    stop` ends it.
    """
    from lockstep.supervise import lease, source_driver
    from lockstep.supervise.folder import name_in_project
    from lockstep.supervise.logs import log_of

    settings, console = Settings.load(), Console(soft_wrap=True, highlight=False)
    own, names = _named(settings, _streams_of(settings, name))
    holders = {one: lease.holder(own, one) for one in names}
    for one, pid in holders.items():
        if pid is not None:
            console.print(f"{name_in_project(own, one)} runs already (pid {pid})")
    to_start = [one for one in names if holders[one] is None]
    if not to_start:
        return
    with console.status(f"starting the streams of {name} …"):
        pid = source_driver.start(own, to_start, "started by `lockstep source start`")
    shown = ", ".join(name_in_project(own, one) for one in to_start)
    console.print(f"{shown} work (pid {pid})")
    console.print(f"log: {log_of(own, to_start[0]).resolve()}")


def source_stop(name: SourceName) -> None:
    """Stop the streams of a source's pipelines after the write under way."""
    from lockstep.supervise import launcher
    from lockstep.supervise.folder import name_in_project

    settings, console = Settings.load(), Console(soft_wrap=True, highlight=False)
    own, names = _named(settings, _streams_of(settings, name))
    with console.status(f"stopping the streams of {name} …"):
        outcomes = launcher.stop(own, names, "stopped by `lockstep source stop`")
    for one in outcomes:
        how = "killed: it did not end in time" if one.killed else "stopped"
        shown = name_in_project(own, one.mode)
        console.print(f"{shown} {how if one.was_running else 'did not run'}")


def _streams_of(settings: Settings, source: str) -> "list[tuple[Plan, Mode]]":
    """Raises ManifestError for any broken folder, PipelineError when there is no stream."""
    from lockstep.pipeline.errors import PipelineError
    from lockstep.pipeline.plan import plans_of
    from lockstep.pipeline.project import read_project

    project = read_project(settings.project)
    project.require_sound()
    project.source(source)
    streams = [(plan, mode) for plan in plans_of(project, source) for mode in plan.manifest.modes]
    if not streams:
        raise PipelineError(
            f"no pipeline of source {source} has a stream: name some under `modes` in a "
            "pipeline.toml"
        )
    return streams


def _named(
    settings: Settings, streams: "Sequence[tuple[Plan, Mode]]"
) -> tuple[Settings, list[str]]:
    """The first stream's settings, and each stream as those know it: by its mode or address."""
    first = streams[0][0].name
    names = [
        str(mode) if plan.name == first else address(plan.name, mode) for plan, mode in streams
    ]
    return settings.of(first), names


def _run(settings: Settings, streams: "Sequence[tuple[Plan, Mode]]") -> None:
    """In this process, until it is stopped.

    Raises PipelineError for a pipeline whose result is not locked, StreamBusyError, and what ended
    the first of the streams that failed, after the others have ended.
    """
    from lockstep.pipeline.errors import PipelineError
    from lockstep.streams.driver import Driver
    from lockstep.supervise.desired import DesiredState, withdraw_desired, write_desired

    for plan, _ in streams:
        if plan.lock_problem:
            raise PipelineError(plan.lock_problem)
    console = Console(soft_wrap=True, highlight=False)
    for plan, mode in streams:
        uri = settings.table_uri(plan.change_log(mode))
        console.print(f"{plan.name} {mode}: follows {plan.change_topic} into {uri}", markup=False)
    own, names = _named(settings, streams)
    driver = Driver(own, names)
    driver.take_leases()
    for name in names:
        write_desired(own, name, DesiredState.RUNNING, _IN_A_TERMINAL)
    try:
        driver.run()
    finally:
        for name in names:
            withdraw_desired(own, name, _IN_A_TERMINAL, "ended in a terminal")
    for failure in driver.failures.values():
        raise failure
