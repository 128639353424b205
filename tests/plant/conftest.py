"""The plant's database in the stack's PostgreSQL, with its own roles, and its project's folder."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from lockstep.accounts import Role
from lockstep.capture.connectors import of_source
from lockstep.capture.reset import remove_capture
from lockstep.capture.source_capture import capture_source
from lockstep.cli import app
from lockstep.errors import LockstepError
from lockstep.pipeline.catalog import write_catalog
from lockstep.pipeline.names import publication
from lockstep.pipeline.plan import Plan, plan_of
from lockstep.pipeline.project import Project, Source, read_project
from lockstep.settings import Settings, source_password_setting
from lockstep.sources.database_catalog import read_database_catalog
from lockstep.sources.preparation import publication_statement
from lockstep.supervise.folder import STREAMS
from typer.testing import CliRunner, Result

from tests.plant.project import SCHEMA, Plant

SEED = 17
PASSWORD = "plant password"
CAPTURE = "plant_capture"
"""The role that captures, of a source that is added by a test."""


@dataclass(frozen=True)
class PlantProject:
    """The plant with its database there, tables empty; settings: a lakehouse of the test's own."""

    plant: Plant
    folder: Path
    settings: Settings

    @property
    def project(self) -> Project:
        return read_project(self.folder)

    @property
    def source(self) -> Source:
        project = self.project
        project.require_sound()
        return project.sources[self.plant.source]

    @property
    def plan(self) -> Plan:
        return plan_of(self.project.pipeline(self.plant.pipeline))

    def owner(self) -> psycopg.Connection:
        """A connection of a superuser to the plant's database, in autocommit."""
        parameters = self.settings.connection(Role.ADMIN, self.plant.database)
        return psycopg.connect(**parameters, autocommit=True)

    def execute(self, text: str, values: tuple | None = None) -> None:
        """One transaction of one statement or more, logical names written as $fact."""
        with self.owner() as connection, connection.transaction():
            connection.execute(self.plant.sql(text), values)


@pytest.fixture
def plant(
    postgres: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[PlantProject]:
    """The plant, its names made from SEED; database and roles are removed at the end."""
    print(f"seed {SEED}")  # noqa: T201 - shown when a test fails
    names = Plant.of(SEED)
    for purpose in ("read", "capture"):
        monkeypatch.setenv(source_password_setting(names.source, purpose), PASSWORD)
    settings = postgres.model_copy(
        update={"project": tmp_path / "project", "lakehouse": str(tmp_path / "lakehouse")}
    )
    made = PlantProject(names, tmp_path / "project", settings)
    with _admin(settings) as admin:
        admin.execute(f"CREATE DATABASE {names.database}")
        admin.execute(f"CREATE ROLE {names.reader} LOGIN PASSWORD '{PASSWORD}'")
        admin.execute(f"CREATE ROLE {names.capture} LOGIN REPLICATION PASSWORD '{PASSWORD}'")
    try:
        yield _filled(made)
    finally:
        with _admin(settings) as admin:  # another connection: tests kill PostgreSQL
            _remove(admin, names)
        for name in (names.pipeline, names.second, names.source):
            for worker in (settings.home / STREAMS).glob(f"{name}__*"):
                shutil.rmtree(worker)


def _admin(settings: Settings) -> psycopg.Connection:
    return psycopg.connect(**settings.connection(Role.ADMIN, "postgres"), autocommit=True)


def _remove(admin: psycopg.Connection, names: Plant) -> None:
    admin.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s",
        [names.database],
    )
    admin.execute(
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = %s",
        [names.database],
    )
    admin.execute(f"DROP DATABASE {names.database} WITH (FORCE)")
    admin.execute(f"DROP ROLE {names.reader}, {names.capture}")


def _filled(made: PlantProject) -> PlantProject:
    names = made.plant
    made.execute(SCHEMA.template)
    made.execute(
        "GRANT USAGE ON SCHEMA $schema TO $reader, $capture;"
        "GRANT SELECT ON ALL TABLES IN SCHEMA $schema, public TO $reader, $capture"
    )
    with made.owner() as connection:
        catalog = read_database_catalog(connection, names.source, ("public", names.schema))
    names.write(made.folder, made.settings, write_catalog(catalog))
    names.lock(made.folder)
    return made


@pytest.fixture
def captured_plant(plant: PlantProject, change_capture: Settings) -> Iterator[PlantProject]:
    """The plant with its connector running; connector, slot and topic are removed at the end."""
    settings, source = plant.settings, plant.source
    tables = [table.name for table in source.catalog.tables]
    with plant.owner() as owner:
        owner.execute(publication_statement(publication(source.name), tables))
    try:
        capture_source(settings, plant.project, source)
        yield plant
    finally:
        remove_capture(settings, of_source(settings, source, tables))


def source(*arguments: str) -> Result:
    """The command; one that fails has no output on standard output."""
    found = CliRunner().invoke(app, ["source", *arguments])
    assert found.exception is None or isinstance(found.exception, LockstepError | SystemExit)
    assert found.exception is None or found.stdout == ""
    return found


@dataclass(frozen=True)
class NewSource:
    """The plant's database before `source add`: its project has neither source nor pipeline."""

    plant: PlantProject

    @property
    def name(self) -> str:
        return self.plant.plant.source

    @property
    def url(self) -> str:
        names_, settings = self.plant.plant, self.plant.settings
        address = f"{settings.postgres_host}:{settings.postgres_port}"
        return f"postgres://{names_.reader}@{address}/{names_.database}"

    @property
    def read(self) -> Source:
        project = read_project(self.plant.folder)
        project.require_sound()
        return project.sources[self.name]

    def add(self, *options: str) -> Result:
        schema = self.plant.plant.schema
        arguments = ("--capture-role", CAPTURE, "--schema", "public", "--schema", schema)
        return source("add", self.name, self.url, *arguments, *options)

    def prepare(self, statements: str) -> None:
        """Run SQL as the administrator, and set the password that it leaves out."""
        with self.plant.owner() as owner:
            owner.execute(statements)
            owner.execute(f"ALTER ROLE {CAPTURE} PASSWORD '{PASSWORD}'")


@pytest.fixture
def new_source(plant: PlantProject, monkeypatch: pytest.MonkeyPatch) -> Iterator[NewSource]:
    """Its roles' rights are taken away; the role that captures is not there."""
    monkeypatch.setenv("LOCKSTEP_PROJECT", str(plant.folder))
    folder = plant.folder / "include" / "sources" / plant.plant.source
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    plant.execute("REVOKE ALL ON ALL TABLES IN SCHEMA $schema, public FROM $reader")
    plant.execute("REVOKE ALL ON SCHEMA $schema FROM $reader")
    yield NewSource(plant)
    with plant.owner() as owner:
        if owner.execute("SELECT FROM pg_roles WHERE rolname = %s", [CAPTURE]).rowcount:
            owner.execute(f"DROP OWNED BY {CAPTURE}; DROP ROLE {CAPTURE}")
