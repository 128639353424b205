"""The folder of one source or of one pipeline, with every problem of its files.

Files are read, and nothing else: no settings, no database, no Spark. What lies in a folder and is
not named here is passed over.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from lockstep.pipeline.catalog import Catalog, read_catalog
from lockstep.pipeline.checks import CHECKS_FILE, Checks, read_checks
from lockstep.pipeline.cross_checks import Around, read_manifest
from lockstep.pipeline.errors import CatalogError, ManifestError, Problem
from lockstep.pipeline.manifest import PipelineManifest
from lockstep.pipeline.names import name_fault
from lockstep.pipeline.project_files import PIPELINE_FILE, PIPELINES, SOURCE_FILE, SOURCES
from lockstep.pipeline.result import RESULT_FILE
from lockstep.pipeline.source import SourceManifest
from lockstep.pipeline.toml_file import TomlFile, read_toml, validate

"""Below the project's folder."""
CATALOG_FILE, QUERY_FILE, VIEW_FILE = "catalog.lock", "query.sql", "view.sql"


class SourceFolder(NamedTuple):
    """manifest, catalog: None when the file cannot be used."""

    manifest: SourceManifest | None
    catalog: Catalog | None
    problems: tuple[Problem, ...]


class PipelineFolder(NamedTuple):
    """toml, manifest: None when pipeline.toml cannot be read. query: the text of query.sql.

    result_lock: the text of result.lock; None when there is none. checks: None without a file.
    """

    toml: TomlFile | None
    manifest: PipelineManifest | None
    query: str
    result_lock: str | None
    checks: Checks | None
    problems: tuple[Problem, ...]


def read_source(project: Path, name: str) -> SourceFolder:
    """The folder of a source, below a project's folder."""
    inside, problems = SOURCES / name, []
    file = inside / SOURCE_FILE
    manifest = catalog = None
    with _added_to(problems):
        _check_name(file, name)
    with _added_to(problems):
        read = validate(SourceManifest, read_toml(_text(project, file), file))
        manifest = read.model
        problems += read.problems
    with _added_to(problems):
        catalog = _catalog(project, inside / CATALOG_FILE, name)
    return SourceFolder(manifest, catalog, tuple(problems))


def read_source_manifest(project: Path, name: str) -> SourceManifest:
    """A source's source.toml alone. Raises ManifestError with its problems, or without the file."""
    file = SOURCES / name / SOURCE_FILE
    read = validate(SourceManifest, read_toml(_text(project, file), file))
    if read.model is None:
        raise ManifestError(read.problems)
    return read.model


def source_manifests(project: Path) -> Iterator[tuple[str, SourceManifest]]:
    """Each source whose source.toml can be read, by its name."""
    for file in sorted((project / SOURCES).glob(f"*/{SOURCE_FILE}")):
        with suppress(ManifestError):
            yield file.parent.name, read_source_manifest(project, file.parent.name)


def read_pipeline(
    project: Path, name: str, catalogs: Mapping[str, Catalog | None]
) -> PipelineFolder:
    """The folder of a pipeline, below a project's folder.

    catalogs: of every source of the project; None of one whose catalog cannot be read.
    """
    inside, problems = PIPELINES / name, []
    file = inside / PIPELINE_FILE
    toml, manifest, query, result_lock, checks = None, None, "", None, None
    around = Around(catalogs, (project / inside / VIEW_FILE).is_file())
    with _added_to(problems):
        _check_name(file, name)
    with _added_to(problems):
        toml = read_toml(_text(project, file), file)
        manifest, found = read_manifest(toml, around)
        problems += found
    with _added_to(problems):
        query = _query(project, inside / QUERY_FILE)
    if (project / inside / RESULT_FILE).exists():
        with _added_to(problems):
            result_lock = _text(project, inside / RESULT_FILE)
    if (project / inside / CHECKS_FILE).exists():
        with _added_to(problems):
            checks = read_checks(_text(project, inside / CHECKS_FILE), inside / CHECKS_FILE)
    return PipelineFolder(toml, manifest, query, result_lock, checks, tuple(problems))


@contextmanager
def _added_to(problems: list[Problem]) -> Iterator[None]:
    """What is wrong with one file does not keep the next from being read."""
    try:
        yield
    except ManifestError as error:
        problems += error.problems


def _check_name(file: Path, name: str) -> None:
    if fault := name_fault(name):
        raise _of_file(file, f"the folder's name {fault}")


def _catalog(project: Path, file: Path, source: str) -> Catalog:
    write = f"`lockstep source add {source}`"
    if not (project / file).exists():
        raise _of_file(file, f"is missing: write it with {write}")
    try:
        catalog = read_catalog(_text(project, file), Path(CATALOG_FILE))
    except CatalogError as error:
        raise _of_file(file, str(error)) from error
    if catalog.source != source:
        raise _of_file(file, f"is of source {catalog.source}: write this one's with {write}")
    return catalog


def _query(project: Path, file: Path) -> str:
    if not (project / file).exists():
        raise _of_file(file, "is missing: write the query, one SELECT of Spark SQL")
    query = _text(project, file)
    if not query.strip():
        raise _of_file(file, "is empty: write the query, one SELECT of Spark SQL")
    return query


def _text(project: Path, file: Path) -> str:
    try:
        return (project / file).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise _of_file(file, f"is not UTF-8 (byte {error.start}): save it as UTF-8") from error
    except OSError as error:
        raise _of_file(file, f"cannot be read ({error.strerror}): see its rights") from error


def _of_file(file: Path, message: str) -> ManifestError:
    return ManifestError([Problem(file, 1, "", " ".join(message.split()))])
