"""Looks at a source's database, and writes its folder: source.toml and catalog.lock.

Nothing in the database is changed, and no file is written before all is known.
"""

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lockstep.errors import ConfigurationError
from lockstep.pipeline import names
from lockstep.pipeline.catalog import Catalog, Column, TableName, write_catalog
from lockstep.pipeline.catalog_changes import catalog_changes
from lockstep.pipeline.errors import CatalogError, ManifestError, PipelineError, TypeRefusedError
from lockstep.pipeline.folder import CATALOG_FILE, read_source
from lockstep.pipeline.plan import tables_followed
from lockstep.pipeline.project import read_project
from lockstep.pipeline.project_files import PIPELINE_FILE, PIPELINES, SOURCE_FILE, SOURCES
from lockstep.pipeline.source import SourceManifest
from lockstep.pipeline.toml_file import read_toml, validate
from lockstep.pipeline.types import value_type
from lockstep.settings import Settings
from lockstep.sources.database_catalog import read_database_catalog
from lockstep.sources.database_state import DatabaseState, read_database_state
from lockstep.sources.postgres import connect_to
from lockstep.sources.preparation import Wanted, captures, missing_statements, warnings
from lockstep.sources.source_address import parse_address
from lockstep.sources.source_database import reader_at

SCHEMA_DEFAULT = "public"
READ_ROLE_DEFAULT, CAPTURE_ROLE_DEFAULT = "lockstep_read", "lockstep_capture"


@dataclass(frozen=True)
class Request:
    """What the user says of a source; empty where they leave it open.

    tables: those to capture; default: those of the publication and those that pipelines read, or
    without a publication all with a primary key.
    """

    name: str
    url: str = ""
    schemas: tuple[str, ...] = ()
    read_role: str = ""
    capture_role: str = ""
    tables: tuple[TableName, ...] = ()


@dataclass(frozen=True)
class AddedSource:
    """What was found. refused: columns that no pipeline can read, each with why.

    tables: those to capture. statements: SQL that an administrator is to run. before: the catalog
    that there was; None without one. is_to_be_read_again: the statements change what the catalog
    says of a table.
    """

    catalog: Catalog
    tables: tuple[TableName, ...]
    refused: list[TypeRefusedError]
    statements: list[str]
    warnings: list[str]
    before: Catalog | None

    @property
    def changes(self) -> list[str] | None:
        """Since the catalog of before."""
        return None if self.before is None else catalog_changes(self.before, self.catalog)

    @property
    def is_to_be_read_again(self) -> bool:
        return any(" REPLICA IDENTITY " in statement for statement in self.statements)


def add_source(settings: Settings, request: Request) -> AddedSource:
    """Write a source's folder, or its catalog again; source.toml is written once.

    Guarantee: when this raises, the folder is as it was. Raises ConfigurationError, PipelineError
    or PostgresUnavailableError.
    """
    text, added = _look_at(settings, request)
    _write(settings.project / SOURCES / request.name, text, write_catalog(added.catalog))
    return added


def check_source(settings: Settings, name: str) -> AddedSource:
    """What `add_source` would find and write now, of a source that is there; nothing is written.

    Raises PipelineError when there is no such source, otherwise as add_source does.
    """
    _require_source(settings, name)
    return _look_at(settings, Request(name))[1]


def refresh_source(settings: Settings, name: str) -> AddedSource:
    """Write the catalog of a source that is there again. Raises as check_source does."""
    _require_source(settings, name)
    return add_source(settings, Request(name))


def _require_source(settings: Settings, name: str) -> None:
    if not (settings.project / SOURCES / name / SOURCE_FILE).exists():
        raise PipelineError(
            f"there is no source {name}: `lockstep source add {name} postgres://…` adds it"
        )


def _look_at(settings: Settings, request: Request) -> tuple[str, AddedSource]:
    """The text of source.toml, empty when the file is there already; and what was found."""
    _check_name(settings.project, request.name)
    text, manifest = _manifest(settings.project, request)
    before = read_source(settings.project, request.name).catalog
    schemas = _schemas(request, before)
    target = reader_at(settings, request.name, manifest)
    roles = (manifest.roles.read, manifest.roles.capture)
    publication = manifest.publication or names.publication(request.name)
    read = _read_by_pipelines(settings.project, request.name)
    with connect_to(target, application_name="lockstep source add") as connection:
        catalog = read_database_catalog(connection, request.name, schemas)
        state = read_database_state(connection, schemas, roles, publication)
    _check_found(catalog, state, request)
    wanted = Wanted(catalog, manifest.roles, publication, _tables(catalog, state, request, read))
    added = AddedSource(
        catalog=catalog,
        tables=wanted.tables,
        refused=_refused(catalog),
        statements=missing_statements(wanted, state),
        warnings=warnings(wanted, state),
        before=before,
    )
    return text, added


def _check_name(project: Path, name: str) -> None:
    if fault := names.name_fault(name):
        raise PipelineError(f"the source's name {fault}")
    if (project / PIPELINES / name / PIPELINE_FILE).exists():
        raise PipelineError(f"{name} is the name of a pipeline: choose another one for the source")


def _manifest(project: Path, request: Request) -> tuple[str, SourceManifest]:
    """source.toml and its text; the text is empty when the file is there already."""
    file = SOURCES / request.name / SOURCE_FILE
    if not (project / file).exists():
        text = _written_manifest(request)
        found = validate(SourceManifest, read_toml(text, file))
        if found.model is None:
            raise ManifestError(found.problems)
        return text, found.model
    found = read_source(project, request.name)
    if found.manifest is None:
        raise ManifestError(found.problems)
    _check_same(request, found.manifest, file)
    return "", found.manifest


def _written_manifest(request: Request) -> str:
    if not request.url:
        raise ConfigurationError(
            f"there is no source {request.name} yet: add the address of its database, such as "
            "postgres://host:5432/database"
        )
    address = parse_address(request.url, request.name)
    read = request.read_role or address.role or READ_ROLE_DEFAULT
    capture = request.capture_role or CAPTURE_ROLE_DEFAULT
    host, database, read, capture = map(_toml, (address.host, address.database, read, capture))
    return (
        "format_version = 1\n"
        'kind = "postgres"\n'
        f"host = {host}\n"
        f"port = {address.port}\n"
        f"database = {database}\n"
        f"roles = {{ read = {read}, capture = {capture} }}\n"
    )


def _toml(text: str) -> str:
    """A string of TOML."""
    if not text.isprintable():
        raise ConfigurationError(f"{json.dumps(text)} has characters that cannot be printed")
    return json.dumps(text, ensure_ascii=False)


def _check_same(request: Request, manifest: SourceManifest, file: Path) -> None:
    """What is asked for must not contradict source.toml, which stays as it is."""
    address = parse_address(request.url, request.name) if request.url else None
    pairs = [
        (request.read_role or (address.role if address else ""), manifest.roles.read),
        (request.capture_role, manifest.roles.capture),
    ]
    if address:
        pairs += [
            (address.host, manifest.host),
            (address.port, manifest.port),
            (address.database, manifest.database),
        ]
    for asked, there in pairs:
        if asked and asked != there:
            raise ConfigurationError(
                f"{file} has {there}, not {asked}, and stays as it is: change it there, or leave "
                "that out of the command"
            )


def _schemas(request: Request, before: Catalog | None) -> tuple[str, ...]:
    """Those asked for, and those of the catalog that is there."""
    known = [table.name.schema for table in before.tables] if before else []
    return tuple(dict.fromkeys((*known, *request.schemas))) or (SCHEMA_DEFAULT,)


def _check_found(catalog: Catalog, state: DatabaseState, request: Request) -> None:
    there = {table.name.schema for table in catalog.tables}
    if empty := [schema for schema in request.schemas if schema not in there]:
        raise CatalogError(f"the database has no table in the schema {', '.join(empty)}")
    if not there:
        raise CatalogError(
            f"the database has no table in the schema {SCHEMA_DEFAULT}: name others by --schema"
        )
    for table in catalog.tables:
        if table.name not in state.tables:
            raise CatalogError(f"table {table.name} was dropped meanwhile: run the command again")
        if "." in table.name.name:
            raise CatalogError(
                f"table {table.name} has a dot in its name, which a catalog cannot hold: rename it"
            )


def _tables(
    catalog: Catalog, state: DatabaseState, request: Request, read: set[TableName]
) -> tuple[TableName, ...]:
    """The tables to capture. read: those that pipelines read already."""
    for name in request.tables:
        if not captures(catalog.table(name), state):
            raise CatalogError(
                f"table {name} cannot be captured: it has no primary key, or only a deferrable "
                "one, or is unlogged"
            )
    if request.tables:
        return tuple(sorted(set(request.tables)))
    able = [table.name for table in catalog.tables if captures(table, state)]
    if state.publication and state.publication.tables:
        wanted = state.publication.tables | read
        return tuple(name for name in able if name in wanted)
    return tuple(able)


def _read_by_pipelines(project: Path, source: str) -> set[TableName]:
    """The tables that streams of the source's pipelines need."""
    found = read_project(project)
    if source not in found.sources:
        return set()
    return tables_followed(found, source)


def _refused(catalog: Catalog) -> list[TypeRefusedError]:
    """A timestamp without time zone is not: its zone is named in the manifest of a pipeline."""
    return [
        error
        for table in catalog.tables
        for column in table.columns
        if (error := _refusal(column, table.name, catalog))
    ]


def _refusal(column: Column, table: TableName, catalog: Catalog) -> TypeRefusedError | None:
    try:
        value_type(column, table, catalog, "UTC")
    except TypeRefusedError as error:
        return error
    return None


def _write(folder: Path, manifest: str, catalog: str) -> None:
    """source.toml last, which makes the folder a source's."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _partial(folder / CATALOG_FILE, catalog) as locked:
            if not manifest:
                locked.replace(folder / CATALOG_FILE)
                return
            with _partial(folder / SOURCE_FILE, manifest) as described:
                locked.replace(folder / CATALOG_FILE)
                described.replace(folder / SOURCE_FILE)
    except OSError as error:
        raise ConfigurationError(f"{folder} cannot be written: {error.strerror}") from error


@contextmanager
def _partial(file: Path, text: str) -> Iterator[Path]:
    """A complete file next to it, gone at the end unless it was moved."""
    partial = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    try:
        partial.write_text(text, encoding="utf-8")
        yield partial
    finally:
        partial.unlink(missing_ok=True)
