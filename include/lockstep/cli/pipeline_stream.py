"""`lockstep pipeline stream`: a pipeline's streams in the foreground.

Only the talking is here; the driver is lockstep.streams.pipeline_driver's.
"""

from typing import Annotated

import typer
from rich.console import Console

from lockstep.pipeline.modes import Mode
from lockstep.settings import Settings


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
    from lockstep.streams.pipeline_driver import PipelineDriver

    settings = Settings.load()
    project = read_project(settings.project)
    plan = plan_of(project.pipeline(name))
    for mode in modes:
        if mode not in plan.manifest.modes:
            known = ", ".join(plan.manifest.modes) or "none"
            raise PipelineError(
                f"pipeline {name} has no mode {mode}: `modes` in its manifest: {known}"
            )
    if plan.lock_problem:
        raise PipelineError(plan.lock_problem)
    console = Console(soft_wrap=True, highlight=False)
    driver = PipelineDriver(settings, project, plan, modes)
    for mode in dict.fromkeys(modes):
        uri = settings.table_uri(plan.change_log(mode))
        console.print(f"{name} {mode}: follows {plan.change_topic} into {uri}", markup=False)
    driver.run()
