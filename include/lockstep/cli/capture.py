"""`lockstep capture`: change capture as a whole. Only the talking; the work is in `capture`."""

from contextlib import ExitStack
from typing import Annotated

import typer
from rich.console import Console

from lockstep.model.modes import HISTORY, StreamMode
from lockstep.settings import Settings

app = typer.Typer(no_args_is_help=True)

WARNING = (
    "This deletes the replication slot {slot} and the topic {topic} with all changes in it. "
    "Capture then begins with a snapshot of the database as it is now: what tables show of earlier "
    "times cannot be made again. They stay as they are until each is rebuilt by `lockstep stream "
    "rebuild`. If a stream feeds the published table, let the batch feed it first: `lockstep "
    "publish switch batch`."
)


@app.callback()
def _group() -> None:
    """Keeps `reset` a command of its own while it is the only one."""


@app.command()
def reset(
    yes: Annotated[bool, typer.Option("--yes", help="Do it without asking.")] = False,
) -> None:
    """Begin change capture from scratch, with a new snapshot: for a slot or topic that was lost.

    Refused while a stream runs. If it is broken off, do it again.
    """
    from lockstep.accounts import KafkaUser
    from lockstep.capture.source_capture import begin_again
    from lockstep.pipeline.project import read_project
    from lockstep.supervise import lease

    console = Console(soft_wrap=True)
    settings = Settings.load()
    names = settings.names
    settings.password(KafkaUser.ADMIN)  # deletes the topic: asked for before anything is changed
    console.print(WARNING.format(slot=names.slot, topic=names.change_topic), highlight=False)
    if not yes:
        typer.confirm("Begin from scratch?", abort=True)
    with ExitStack() as held:
        held.enter_context(lease.acquire(settings, HISTORY))
        for pipeline in read_project(settings.project).pipelines.values():
            if pipeline.source.name == names.source:
                for mode in StreamMode:
                    held.enter_context(lease.acquire(settings.of(pipeline.name), mode))
        with console.status("beginning change capture from scratch …"):
            begin_again(settings)
    console.print(
        "capture has begun from scratch; now `lockstep stream rebuild` each mode that you use"
    )
