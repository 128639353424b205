"""`lockstep pipeline stream`: a pipeline's stream in the foreground.

Only the talking is here; the driver is lockstep.streams.pipeline_driver's.
"""

from typing import Annotated

import typer
from rich.console import Console

from lockstep.pipeline.modes import Mode
from lockstep.settings import Settings


def stream(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The pipeline.")],
    mode: Annotated[Mode, typer.Argument(help="A mode of its pipeline.toml.")],
) -> None:
    """Run a stream of a pipeline until Ctrl-C or SIGTERM. Only mode temporal works so far.

    It goes on where its Delta table ends. The same process writes the history of the source, unless
    another driver does.
    """
    from lockstep.pipeline.errors import PipelineError
    from lockstep.pipeline.plan import plan_of
    from lockstep.pipeline.project import read_project
    from lockstep.streams.pipeline_driver import PipelineDriver

    settings = Settings.load()
    project = read_project(settings.project)
    plan = plan_of(project.pipeline(name))
    if mode not in plan.manifest.modes:
        known = ", ".join(plan.manifest.modes) or "none"
        raise PipelineError(f"pipeline {name} has no mode {mode}: `modes` in its manifest: {known}")
    if mode is not Mode.TEMPORAL:
        raise PipelineError(f"mode {mode} of a pipeline's folder does not work yet: temporal does")
    Console(soft_wrap=True, highlight=False).print(
        f"{name} {mode}: follows {plan.change_topic} into "
        f"{settings.table_uri(plan.change_log(mode))}",
        markup=False,
    )
    PipelineDriver(settings, project, plan, mode).run()
