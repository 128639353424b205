"""`lockstep pipeline prepare`: the SQL that a pipeline needs in its source's database."""

from typing import Annotated

import typer

from lockstep.settings import Settings


def prepare(name: Annotated[str, typer.Argument(metavar="NAME", help="The pipeline.")]) -> None:
    """Print the SQL that a pipeline needs in the source's database.

    An administrator of the database is to run it, as the owner of the tables: a trigger that keeps
    the fact's time as it is; for modes outbox and message, a function that an application calls as
    the last statement of each transaction that changes a fact, and the outbox. Changes nothing
    itself. It asks the database, as the source's read role, for the view's columns and the foreign
    keys.
    """
    from lockstep.pipeline.plan import plan_of
    from lockstep.pipeline.project import read_project
    from lockstep.sources.fixed_time import keeping_time_statements
    from lockstep.sources.postgres import connect_to
    from lockstep.sources.publishing import publishing_statements
    from lockstep.sources.source_database import reader_of

    settings = Settings.load()
    pipeline = read_project(settings.project).pipeline(name)
    source, plan = pipeline.source, plan_of(pipeline)
    target = reader_of(settings, source)
    with connect_to(target, application_name="lockstep pipeline prepare") as connection:
        published = publishing_statements(connection, source, plan, target.role)
    for statement in (*keeping_time_statements(plan), *published):
        typer.echo(statement)
    if not published:
        typer.echo("run this SQL, if any, as the owner of the tables", err=True)
        return
    typer.echo(
        f"run this SQL as the owner of the tables; then `lockstep source add {source.name}` and "
        f"`lockstep source capture {source.name}`",
        err=True,
    )
