"""`lockstep source`: the databases whose tables pipelines read. Only the talking is here.

Looking at a database is lockstep.sources', its connector lockstep.capture's.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from lockstep.cli.pipeline_stream import source_start, source_stop, source_stream
from lockstep.cli.remove import remove_source
from lockstep.settings import Settings

if TYPE_CHECKING:
    from lockstep.pipeline.project import Project
    from lockstep.sources.source_add import AddedSource

app = typer.Typer(no_args_is_help=True)
app.command(name="stream")(source_stream)
app.command(name="start")(source_start)
app.command(name="stop")(source_stop)
app.command(name="rm")(remove_source)
Name = Annotated[str, typer.Argument(metavar="NAME", help="What the source is called.")]


@app.command()
def add(
    name: Name,
    url: Annotated[
        str,
        typer.Argument(
            metavar="[URL]",
            help="Its database, postgres://ROLE@HOST:PORT/DATABASE, without a password; not needed "
            "for a source that is there.",
        ),
    ] = "",
    schema: Annotated[
        list[str] | None,
        typer.Option(help="A schema of its tables; may be given again. Default: public."),
    ] = None,
    read_role: Annotated[
        str, typer.Option(help="The role that reads. Default: the URL's, else lockstep_read.")
    ] = "",
    capture_role: Annotated[
        str, typer.Option(help="The role that follows the log. Default: lockstep_capture.")
    ] = "",
    tables: Annotated[
        list[str] | None,
        typer.Option(help="schema.table to capture; may be given again. Default: all with a key."),
    ] = None,
) -> None:
    """Look at a database as its read role, and write source.toml and catalog.lock.

    Prints the SQL that an administrator of the database is to run, on standard output, and on
    standard error what was found. The read role needs no rights yet but to connect; its password is
    LOCKSTEP_SOURCE_NAME_READ_PASSWORD in the environment, or in the file that
    LOCKSTEP_SOURCE_NAME_READ_PASSWORD_FILE names. Changes nothing in the database. Run again, it
    writes catalog.lock again and says what has changed.
    """
    from lockstep.sources.source_add import Request, add_source

    request = Request(
        name, url, tuple(schema or ()), read_role, capture_role, _table_names(tables or [])
    )
    _show(name, add_source(Settings.load(), request))


@app.command()
def check(name: Name) -> None:
    """Look at a source's database again, and say what is missing there, and who can add it.

    Exits with 1 when SQL is missing, or the tables have changed since catalog.lock was written; all
    else is a warning. Nothing is written, in the database or here.
    """
    from lockstep.pipeline.project import read_project
    from lockstep.sources.preparation import who_runs
    from lockstep.sources.side_snapshots import read_side_snapshots
    from lockstep.sources.source_add import check_source

    settings = Settings.load()
    found = check_source(settings, name)
    for statement in found.statements:
        who = who_runs(statement)
        typer.echo(f"missing: {statement}{f'  -- {who}' if who else ''}")
    for line in (
        *found.warnings,
        *(f"a column that no pipeline can read: {one}" for one in found.refused),
    ):
        typer.echo(f"warning: {line}")
    for change in found.changes or ():
        typer.echo(f"changed: {change}")
    for one in read_side_snapshots(settings, name).incomplete:
        typer.echo(
            f"warning: the side snapshot of {', '.join(one.late)} is not complete, and its slot "
            f"may keep the database's log: `lockstep source capture {name}` takes it again"
        )
    _show_concerned(read_project(settings.project), name, found)
    if found.changes:
        typer.echo(f"`lockstep source refresh {name}` writes the catalog as it is now")
    if found.statements or found.changes:
        raise typer.Exit(1)
    typer.echo(f"source {name}: nothing is missing, and its catalog is as its tables are")


@app.command()
def refresh(name: Name) -> None:
    """Write catalog.lock as the database is now; say what changed, and which pipelines read it."""
    from lockstep.pipeline.project import read_project
    from lockstep.sources.source_add import refresh_source

    settings = Settings.load()
    before = read_project(settings.project)
    found = refresh_source(settings, name)
    for change in found.changes or ["nothing has changed in its tables"]:
        typer.echo(change)
    _show_concerned(before, name, found)


def _show_concerned(before: "Project", name: str, found: "AddedSource") -> None:
    """before: the project with the catalog that there was."""
    from lockstep.pipeline.catalog_changes import concerned

    for pipeline, what in concerned(before, name, found.catalog):
        typer.echo(
            f"pipeline {pipeline} reads {', '.join(what)}: see `lockstep pipeline check {pipeline}`"
        )


@app.command()
def capture(
    name: Name,
    new_snapshot: Annotated[
        bool,
        typer.Option(
            "--new-snapshot",
            help="Delete its connector, slot and topic first, for one that has a gap. Stop its "
            "streams before; what the topic has of earlier times is lost.",
        ),
    ] = False,
) -> None:
    """Register a source's connector in Kafka Connect, and wait until it runs.

    One that runs is left alone, and what failed in it is started again. Tables that a pipeline is
    the first to read come by a side snapshot, while the streams of the source run on; broken off,
    it is begun again by the next call. The password of the capture role is
    LOCKSTEP_SOURCE_NAME_CAPTURE_PASSWORD in the environment, or in the file that
    LOCKSTEP_SOURCE_NAME_CAPTURE_PASSWORD_FILE names.
    """
    from lockstep.capture.source_capture import capture_source
    from lockstep.pipeline.project import read_project

    settings = Settings.load()
    project = read_project(settings.project)
    source = project.source(name)
    connector = capture_source(
        settings, project, source, new_snapshot=new_snapshot, progress=typer.echo
    )
    typer.echo(
        f"{connector.name} captures {', '.join(map(str, connector.tables))} into "
        f"{connector.change_topic}"
    )


def _table_names(texts: list[str]) -> tuple:
    from lockstep.pipeline.fields import parse_table

    try:
        return tuple(parse_table(text) for text in texts)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--tables") from None


def _show(name: str, added: "AddedSource") -> None:
    """The SQL on standard output, all else on standard error."""
    for line in _found(name, added):
        typer.echo(line, err=True)
    if added.statements:
        typer.echo("An administrator of the database is to run:", err=True)
    for statement in added.statements:
        typer.echo(statement)
    for warning in added.warnings:
        typer.echo(f"warning: {warning}", err=True)
    if added.is_to_be_read_again:
        typer.echo(
            f"After REPLICA IDENTITY has changed, run `lockstep source add {name}` again: the "
            "catalog has it",
            err=True,
        )


def _found(name: str, added: "AddedSource") -> list[str]:
    tables = added.catalog.tables
    columns = sum(len(table.columns) for table in tables)
    lines = [f"source {name}: {len(tables)} tables, {columns} columns"]
    lines += [
        f"  {table.name}: {len(table.columns)} columns, "
        f"{'captured' if table.name in added.tables else 'not captured'}"
        for table in tables
    ]
    lines += [f"a column that no pipeline can read: {error}" for error in added.refused]
    if added.changes is not None:
        lines += added.changes or ["nothing has changed in its tables"]
    return lines
