"""Makes the folder of a new pipeline of a view, by what the source's database says of it."""

from dataclasses import replace
from pathlib import Path

from lockstep.pipeline import names
from lockstep.pipeline.errors import PipelineError
from lockstep.pipeline.fields import parse_table
from lockstep.pipeline.folder import QUERY_FILE
from lockstep.pipeline.from_view import NewPipeline, View, pipeline_of_view
from lockstep.pipeline.project import read_project
from lockstep.pipeline.project_files import PIPELINE_FILE, PIPELINES
from lockstep.settings import Settings
from lockstep.sources.postgres import connect_to
from lockstep.sources.source_database import reader_of
from lockstep.sources.view_definition import read_view
from lockstep.whole_folder import whole_folder


def new_pipeline(settings: Settings, name: str, source: str, view: str) -> tuple[Path, NewPipeline]:
    """Write the folder, below the project's, and return it with what was made.

    It is there whole or not at all. Raises PipelineError for a name that cannot be used or is in
    use, for a source that is not there and a view that the database does not have,
    PostgresUnavailableError, and ConfigurationError when it cannot be written.
    """
    project = read_project(settings.project)
    if fault := names.name_fault(name):
        raise PipelineError(f"the pipeline's name {fault}")
    if name in (*project.sources, *project.source_problems):
        raise PipelineError(f"{name} is the name of a source: choose another one for the pipeline")
    folder = PIPELINES / name
    if (settings.project / folder).exists():
        raise PipelineError(f"{folder} is there already: choose another name, or remove the folder")
    try:
        view_name = parse_table(view)
    except ValueError as error:
        raise PipelineError(f"the view {view} {error}") from None
    of = project.source(source)
    with connect_to(reader_of(settings, of), application_name="lockstep pipeline new") as database:
        found = read_view(database, view_name)
    asked = View(source, view_name, found.sql, found.foreign_keys, found.keeps_commit_times)
    made = pipeline_of_view(asked, of.catalog, folder / QUERY_FILE)
    with whole_folder(settings.project / folder) as whole:
        whole.mkdir()
        (whole / QUERY_FILE).write_text(made.query, encoding="utf-8")
        (whole / PIPELINE_FILE).write_text(made.manifest, encoding="utf-8")
    return folder, replace(made, grants=found.grants)
