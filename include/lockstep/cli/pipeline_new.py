"""`lockstep pipeline new`: the folder of a pipeline, made of a view of its source's database."""

from typing import Annotated

import typer

from lockstep.settings import Settings


def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the pipeline is called.")],
    source: Annotated[str, typer.Option(help="The source whose database has the view.")],
    view: Annotated[str, typer.Option(help="The view, as schema.view.")],
) -> None:
    """Write the folder of a pipeline: query.sql and pipeline.toml of a view of PostgreSQL.

    The view's query is translated to Spark's SQL; key and time are chosen, with the reasons as
    comments. It asks the database, as the source's read role, for the view's definition and the
    foreign keys, and changes nothing there. What a person must look at is printed, and the GRANT
    that the role lacks to read the view. Exits with 2 when the query cannot be used as it is: its
    line is marked in the file.
    """
    from lockstep.sources.new_pipeline import new_pipeline

    folder, made = new_pipeline(Settings.load(), name, source, view)
    typer.echo(f"{folder} is written: query.sql and pipeline.toml")
    for note in made.notes:
        typer.echo(f"  {'to correct' if note in made.to_correct else 'look at'}: {note}")
    for grant in made.grants:
        typer.echo(f"an administrator is to run: {grant}")
    if made.refused is not None:
        raise made.refused
    typer.echo(
        f"next: `lockstep pipeline lock {name}`, `lockstep pipeline prepare {name}`, whose SQL the "
        f"tables' owner is to run, and `lockstep pipeline check {name} --rows START END`, which "
        f"compares the view and the query row by row; then `lockstep --pipeline {name} stream "
        f"start temporal`, `lockstep pipeline run {name} START END` and `lockstep pipeline "
        f"compare {name} temporal START END`"
    )
