"""`lockstep pipeline`: the pipelines of the project, what is wrong with them, and their schema.

Only the talking is here; reading and judging are lockstep.pipeline's.
"""

import json
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from lockstep.cli.pipeline_apply import apply
from lockstep.cli.pipeline_compare import compare
from lockstep.cli.pipeline_explain import explain
from lockstep.cli.pipeline_lock import lock
from lockstep.cli.pipeline_new import new
from lockstep.cli.pipeline_prepare import prepare
from lockstep.cli.pipeline_preview import preview
from lockstep.cli.pipeline_run import run
from lockstep.cli.pipeline_stream import stream
from lockstep.cli.pipeline_test import test
from lockstep.cli.remove import remove_pipeline
from lockstep.cli.rename import rename_pipeline
from lockstep.project import project_dir

if TYPE_CHECKING:
    from pathlib import Path

    from rich.table import Table

    from lockstep.pipeline.project import Pipeline, Project

NO_PIPELINE = "the project has no pipeline: one is a folder of include/sql with a pipeline.toml"

app = typer.Typer(no_args_is_help=True)
app.command()(new)
app.command()(explain)
app.command()(apply)
app.command()(preview)
app.command()(test)
app.command()(run)
app.command()(stream)
app.command()(prepare)
app.command(name="rm")(remove_pipeline)
app.command(name="rename")(rename_pipeline)


class ManifestKind(StrEnum):
    """Which file: source.toml, pipeline.toml, checks.toml or one of tests/."""

    SOURCE = "source"
    PIPELINE = "pipeline"
    CHECKS = "checks"
    TESTS = "tests"


@app.command(name="list")
def list_pipelines() -> None:
    """Show the pipelines of the project. Exits with 2 when one of them cannot be used."""
    from rich.console import Console

    from lockstep.pipeline.errors import PipelineError
    from lockstep.pipeline.project import read_project

    project = read_project(project_dir())
    if not project.pipelines and not project.pipeline_problems:
        typer.echo(NO_PIPELINE)
        return
    Console(highlight=False).print(_table(project))
    if wrong := list(project.pipeline_problems):
        raise PipelineError(
            f"{len(wrong)} cannot be used ({', '.join(wrong)}): `lockstep pipeline check` says why"
        )


@app.command()
def check(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Only this one. Default: all, and all sources.")
    ] = "",
    rows: Annotated[
        bool,
        typer.Option(
            "--rows",
            help="Compare the rows of its view with those of its query, too, under one snapshot of "
            "the database.",
        ),
    ] = False,
    start: Annotated[
        str, typer.Argument(metavar="[START]", help="With --rows: of the window, ISO 8601.")
    ] = "",
    end: Annotated[str, typer.Argument(metavar="[END]", help="Not part of the window.")] = "",
    histories: Annotated[
        int,
        typer.Option(
            min=0,
            help="Make up so many small histories of its tables in memory, and compare what a "
            "stream gives of them with what the hourly run gives.",
        ),
    ] = 0,
    seed: Annotated[int, typer.Option(help="Of the histories: the same makes the same.")] = 0,
) -> None:
    """Read manifests, catalogs, queries, checks and tests; name each problem with file and line.

    Exits with 2 when there is one. Neither a database nor Spark is asked but with --rows, which
    exits with 1 when view and query differ, and with --histories, which needs no database and exits
    with 1 when stream and hourly run differ: what the result's columns are, which checks are about,
    is in result.lock. Files are named as they are below the project's folder.
    """
    from lockstep.pipeline.errors import ManifestError, PipelineError
    from lockstep.pipeline.project import read_project

    folder = project_dir()
    project = read_project(folder)
    try:
        if name:
            chosen = [project.pipeline(name)]
        else:
            project.require_sound()
            chosen = list(project.pipelines.values())
    except ManifestError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(error.exit_code) from None
    refused = False
    for pipeline in chosen:
        try:
            typer.echo(f"{pipeline.name}: {_judged(folder, pipeline)} ({_modes(pipeline)})")
        except PipelineError as error:
            typer.echo(str(error), err=True)
            refused = True
    if not chosen:
        typer.echo(NO_PIPELINE)
    if refused:
        raise typer.Exit(PipelineError.exit_code)
    if rows:
        from lockstep.cli.pipeline_rows import check_rows

        check_rows(name, start, end)
    if histories:
        from lockstep.cli.pipeline_histories import show_histories

        show_histories(name, histories, seed)


@app.command()
def schema(
    kind: Annotated[ManifestKind, typer.Argument(help="Which file.")] = ManifestKind.PIPELINE,
) -> None:
    """Print the JSON Schema of one of these files, for editors.

    Kept in a file, it is named in a manifest's first line: `#:schema ../pipeline.schema.json`.
    """
    from lockstep.pipeline.checks import ChecksManifest
    from lockstep.pipeline.manifest import PipelineManifest
    from lockstep.pipeline.source import SourceManifest
    from lockstep.pipeline.steps import StepsManifest

    models = {
        ManifestKind.SOURCE: SourceManifest,
        ManifestKind.PIPELINE: PipelineManifest,
        ManifestKind.CHECKS: ChecksManifest,
        ManifestKind.TESTS: StepsManifest,
    }
    typer.echo(json.dumps(models[kind].model_json_schema(), indent=2))


app.command()(compare)
app.command()(lock)


def _table(project: "Project") -> "Table":
    """A row for each pipeline that can be used."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for title in ("pipeline", "source", "semantics", "key", "modes"):
        table.add_column(title, no_wrap=title == "pipeline", overflow="fold")
    for pipeline in project.pipelines.values():
        manifest = pipeline.manifest
        key = ", ".join(manifest.key)
        table.add_row(
            pipeline.name, pipeline.source.name, manifest.semantics, key, _modes(pipeline)
        )
    return table


def _judged(folder: "Path", pipeline: "Pipeline") -> str:
    """That a pipeline has no problem, or what its result's lock lacks.

    Raises PipelineError for its query and its tests, and for checks that do not fit its result.
    """
    from lockstep.pipeline.plan import plan_of
    from lockstep.pipeline.project_files import PIPELINES
    from lockstep.pipeline.steps import TESTS_FOLDER

    plan = plan_of(pipeline)
    if (folder / PIPELINES / pipeline.name / TESTS_FOLDER).exists():
        from lockstep.histories.steps import read_tests

        read_tests(folder, pipeline)
    if pipeline.checks is not None:
        _ = plan.checks
    return plan.lock_problem or "no problem"


def _modes(pipeline: "Pipeline") -> str:
    from lockstep.pipeline.modes import Mode

    return ", ".join((Mode.BATCH, *pipeline.manifest.modes))
