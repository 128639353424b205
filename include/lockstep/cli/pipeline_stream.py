"""`lockstep pipeline stream`, `lockstep source stream`: streams in the foreground.

Only the talking is here; the driver is lockstep.streams.source_driver's.
"""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from lockstep.pipeline.modes import Mode
from lockstep.settings import Settings

if TYPE_CHECKING:
    from lockstep.pipeline.plan import Plan
    from lockstep.pipeline.project import Project, Source


def stream(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The pipeline.")],
    modes: Annotated[list[Mode], typer.Argument(help="Modes of its pipeline.toml.")],
) -> None:
    """Run streams of a pipeline, in one process, until Ctrl-C or SIGTERM.

    Each goes on where its Delta table ends. The same process writes the history of the source,
    unless another one does. A stream that fails ends alone, with an error at the end.
    """
    from lockstep.pipeline.errors import PipelineError
    from lockstep.pipeline.plan import plan_of
    from lockstep.pipeline.project import read_project

    settings = Settings.load()
    project = read_project(settings.project)
    pipeline = project.pipeline(name)
    plan = plan_of(pipeline)
    for mode in modes:
        if mode not in plan.manifest.modes:
            known = ", ".join(plan.manifest.modes) or "none"
            raise PipelineError(
                f"pipeline {name} has no mode {mode}: `modes` in its manifest: {known}"
            )
    _run(settings, project, pipeline.source, [(plan, mode) for mode in dict.fromkeys(modes)])


def source_stream(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the source is called.")],
) -> None:
    """Run all streams of a source's pipelines, in one process, until Ctrl-C or SIGTERM.

    They are the `modes` of each pipeline.toml; otherwise as `lockstep pipeline stream`. A pipeline
    with a problem is an error: nothing starts.
    """
    from lockstep.pipeline.errors import PipelineError
    from lockstep.pipeline.plan import plan_of
    from lockstep.pipeline.project import read_project

    settings = Settings.load()
    project = read_project(settings.project)
    project.require_sound()
    source = project.source(name)
    plans = [plan_of(one) for one in project.pipelines.values() if one.source.name == name]
    streams = [(plan, mode) for plan in plans for mode in plan.manifest.modes]
    if not streams:
        raise PipelineError(
            f"no pipeline of source {name} has a stream: name some under `modes` in a pipeline.toml"
        )
    _run(settings, project, source, streams)


def _run(
    settings: Settings, project: "Project", source: "Source", streams: "list[tuple[Plan, Mode]]"
) -> None:
    """Raises PipelineError for a pipeline whose result is not locked."""
    from lockstep.pipeline.errors import PipelineError
    from lockstep.streams.source_driver import SourceDriver

    for plan, _ in streams:
        if plan.lock_problem:
            raise PipelineError(plan.lock_problem)
    console = Console(soft_wrap=True, highlight=False)
    for plan, mode in streams:
        uri = settings.table_uri(plan.change_log(mode))
        console.print(f"{plan.name} {mode}: follows {plan.change_topic} into {uri}", markup=False)
    SourceDriver(settings, project, source, streams).run()
