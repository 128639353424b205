"""`lockstep pipeline rm`, `lockstep source rm`: first what would be removed, then the removal.

Only the talking is here; the work is lockstep.maintain.removal's and lockstep.capture's.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.filesize import decimal

from lockstep.settings import Settings

Yes = Annotated[bool, typer.Option("--yes", help="Remove it; without that nothing is changed.")]
_AGAIN = "nothing was changed: the same with --yes removes it"


def remove_pipeline(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The pipeline.")], yes: Yes = False
) -> None:
    """Remove a pipeline: its folder, what its streams keep, and its tables. Shows it first.

    Streams and publisher must be stopped. The source, its capture and its history stay. If it is
    broken off, do it again.
    """
    from lockstep.maintain import removal
    from lockstep.pipeline.errors import PipelineError
    from lockstep.pipeline.names import name_fault
    from lockstep.supervise import launcher

    if fault := name_fault(name):
        raise PipelineError(f"the pipeline's name {fault}")
    settings, console = Settings.load(), Console(soft_wrap=True, highlight=False)
    what = removal.of_pipeline(settings, name)
    there = removal.there(settings, what)
    if not there:
        raise PipelineError(f"there is no pipeline {name}, and nothing that one has left")
    working = removal.running(settings, what)
    console.print(f"Of pipeline {name} there is:")
    _show(console, there)
    if Path(settings.table_uri(f"{name}/{name}")) in there:
        console.print(f"Consumers that read the published table {name}/{name} lose it.")
    console.print(f"Its DAGs, {name}__…, go with its folder; so do runs that wait for approval.")
    if working:
        console.print(f"These run, and are stopped first: {', '.join(working)}")
    if not yes:
        console.print(_AGAIN)
        return
    launcher.stop(settings, working, f"stopped by `lockstep pipeline rm {name}`")
    removal.remove(settings, what)
    console.print(f"{name} is removed")


def remove_source(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The source.")], yes: Yes = False
) -> None:
    """Remove a source: connector, replication slot, change topic, history, folder. Shows it first.

    A slot that nothing reads keeps the database's log until its disk is full. Refused while
    pipelines read the source. If it is broken off, do it again.
    """
    from psycopg import sql

    from lockstep.capture import connectors
    from lockstep.capture.reset import remove_capture
    from lockstep.maintain import removal
    from lockstep.pipeline.errors import PipelineError
    from lockstep.pipeline.project import read_project
    from lockstep.sources.capture import capture_facts_at
    from lockstep.sources.source_database import capturer_of

    settings, console = Settings.load(), Console(soft_wrap=True, highlight=False)
    project = read_project(settings.project)
    source = project.source(name)
    if used := sorted(p.name for p in project.pipelines.values() if p.source.name == name):
        raise PipelineError(
            f"source {name} is read by {', '.join(used)}: `lockstep pipeline rm` removes a pipeline"
        )
    if project.pipeline_problems:
        raise PipelineError(
            f"pipelines {', '.join(project.pipeline_problems)} have problems, so that it is not "
            "known whether they read the source: `lockstep pipeline check` says what they are"
        )
    what = removal.of_source(settings, name)
    facts = capture_facts_at(capturer_of(settings, source), source.slot)
    console.print(f"Of source {name} there is:")
    _show(console, removal.there(settings, what))
    if facts.has_slot:
        kept = decimal(facts.current_lsn - (facts.restart_lsn or facts.current_lsn))
        console.print(f"  slot {source.slot}, which keeps {kept} of the database's log")
    console.print(f"  connector {source.connector}, with its change topic, if it was captured")
    publication = sql.Identifier(source.publication)
    statement = sql.SQL("DROP PUBLICATION IF EXISTS {};").format(publication).as_string()
    console.print(
        f"In the database an administrator removes publication and roles: {statement}", markup=False
    )
    if not yes:
        console.print(_AGAIN)
        return
    with console.status("removing the capture …"):
        remove_capture(settings, connectors.of_source(settings, source, ()))
    removal.remove(settings, what)
    console.print(f"{name} is removed")


def _show(console: Console, there: Mapping[Path, int]) -> None:
    for folder, size in there.items():
        console.print(f"  {folder} ({decimal(size)})")
