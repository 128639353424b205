"""`lockstep pipeline rename`: first what would be moved, then the moving.

Only the talking is here; the work is lockstep.maintain.renaming's.
"""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from lockstep.settings import Settings


def rename_pipeline(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The pipeline.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="What it is to be called.")],
    yes: Annotated[
        bool, typer.Option("--yes", help="Move it; without that nothing is changed.")
    ] = False,
) -> None:
    """Give a pipeline another name: its folder, what its streams keep, and its tables. Shows it
    first.

    Streams and publisher are stopped, and not started again. If it is broken off, do it again.
    """
    from lockstep.maintain import removal, renaming
    from lockstep.pipeline.pipeline_names import own_pipeline
    from lockstep.supervise import launcher

    settings, console = Settings.load(), Console(soft_wrap=True, highlight=False)
    found = renaming.moves(settings, name, new)
    working = removal.running(settings, removal.of_pipeline(settings, name))
    console.print(f"Of pipeline {name} these move:")
    for there, wanted in found.items():
        console.print(f"  {there} → {wanted}")
    if Path(settings.table_uri(f"{name}/{name}")) in found:
        console.print(f"Consumers read the published table at {new}/{new} from then on.")
    console.print(
        f"Its DAGs are {new}__… from then on; Airflow keeps the runs of before under {name}__…. In "
        "the database the function, the trigger and the outbox keep their names, and work on."
    )
    if own_pipeline(settings.project) == name:
        console.print(f'In pyproject.toml write [tool.lockstep] pipeline = "{new}".', markup=False)
    if working:
        console.print(f"These run, and are stopped first: {', '.join(working)}")
    if not yes:
        console.print("nothing was changed: the same with --yes renames it")
        return
    launcher.stop(settings, working, f"stopped by `lockstep pipeline rename {name}`")
    renaming.rename(settings, name, new)
    console.print(f"{name} is {new} now")
