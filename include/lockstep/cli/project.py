"""`lockstep init | setup`: a project of one's own, and what it needs that pip does not install."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from lockstep.errors import ServiceError


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command()(init)
    app.command()(setup)


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder, or an empty one.")],
) -> None:
    """Make the folder of a new project: DAGs, jobs, plugins, and no pipeline yet."""
    from lockstep.new_project.create import create_project

    create_project(folder.expanduser().absolute())
    Console(soft_wrap=True, highlight=False).print(
        f"{folder} is a project; next:\n  cd {folder}\n  make setup    packages, and what runs in "
        "Java\n  make up       PostgreSQL, Kafka, Connect and Airflow on this machine\n"
        "README.md there goes on to the first pipeline",
        markup=False,
    )


def setup() -> None:
    """Fetch the jars that the project's JVMs need, and archive Spark's classes; again: what is new.

    Exits with 2 without Java 17 or 21.
    """
    from lockstep.jars.__main__ import main as fetch_jars
    from lockstep.jvm.java import VERSIONS, java, java_version
    from lockstep.streams.class_archive import main as archive_classes

    if (version := java_version()) not in VERSIONS:
        wanted = " or ".join(map(str, VERSIONS))
        raise ServiceError(f"{java()} is Java {version}: install Java {wanted}, or set JAVA_HOME")
    if code := fetch_jars([]):
        raise typer.Exit(code)
    archive_classes([])
