"""A source whose connector begins with one table, and pipelines that bring others later.

Containers stand in a yard; each pipeline joins them with a table of its own, which the connector
begins without: where they go, what is in them, who asked for them.
"""

from dataclasses import dataclass
from pathlib import Path

import psycopg
from lockstep.accounts import Role
from lockstep.pipeline.catalog import write_catalog
from lockstep.pipeline.plan import Plan, plan_named
from lockstep.pipeline.project_files import PIPELINES
from lockstep.pipeline.result import RESULT_FILE, write_result
from lockstep.settings import Settings
from lockstep.sources.database_catalog import read_database_catalog

SOURCE = "yard"
FIRST = "containers"
PASSWORD = "yard password"
SCHEMA = """
CREATE TABLE containers (
    id int PRIMARY KEY, place int NOT NULL, weight int NOT NULL, moved_at timestamptz NOT NULL
);
CREATE ROLE yard_reader LOGIN PASSWORD 'yard password';
CREATE ROLE yard_capture LOGIN REPLICATION PASSWORD 'yard password';
GRANT SELECT ON ALL TABLES IN SCHEMA public TO yard_reader, yard_capture;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO yard_reader, yard_capture;
CREATE PUBLICATION lockstep__yard FOR TABLE containers
    WITH (publish = 'insert, update, delete, truncate', publish_via_partition_root = true);
"""
SOURCE_TOML = """
format_version = 1
kind = "postgres"
host = "{host}"
port = {port}
database = "yard"
roles = {{ read = "yard_reader", capture = "yard_capture" }}
"""
MANIFEST = """
format_version = 1
sources = ["yard"]
semantics = "as_of_commit"
fact = "{fact}"
key = ["id"]
time = "moved_at"
modes = ["temporal", "transaction"]
tolerate = {{ temporal = ["dimension_drift"], transaction = ["dimension_drift"] }}
"""
FIRST_QUERY = "SELECT id, moved_at, weight FROM containers"
JOINED = """
SELECT c.id, c.moved_at, c.{more} AS own, t.name, t.note
FROM {fact} AS c
LEFT JOIN {late} AS t ON c.place = t.id
"""
NOTE_CHARACTERS = 4000
"""A note of so many is stored apart, so that an update which leaves it sends no note."""


@dataclass(frozen=True)
class Late:
    """A pipeline that brings tables. fact: `containers`, or a table that is late as well.

    column: of the fact; `place` and `weight` alone were read before.
    """

    name: str
    fact: str
    column: str

    @property
    def table(self) -> str:
        return f"{self.name}_places"

    @property
    def tables(self) -> list[str]:
        """Those that are late."""
        return [self.table] if self.fact == FIRST else [self.fact, self.table]

    @property
    def query(self) -> str:
        return JOINED.format(more=self.column, fact=self.fact, late=self.table)


@dataclass(frozen=True)
class Yard:
    """The project's folder, and its database."""

    settings: Settings

    @property
    def folder(self) -> Path:
        return self.settings.project

    def owner(self, *, autocommit: bool = True) -> psycopg.Connection:
        parameters = self.settings.connection(Role.ADMIN, SOURCE)
        return psycopg.connect(**parameters, autocommit=autocommit)

    def prepare(self) -> None:
        """Database, source and the first pipeline."""
        parameters = self.settings.connection(Role.ADMIN, "postgres")
        with psycopg.connect(**parameters, autocommit=True) as admin:
            admin.execute("CREATE DATABASE yard")
        with self.owner() as owner:
            owner.execute(SCHEMA)
            for number in range(CONTAINERS):
                owner.execute(
                    "INSERT INTO containers VALUES (%s, %s, 1, now())", [number, number % PLACES]
                )
        address = {"host": self.settings.postgres_host, "port": self.settings.postgres_port}
        self._write(f"include/sources/{SOURCE}/source.toml", SOURCE_TOML.format(**address))
        self.refresh()
        self.write_pipeline(FIRST, FIRST, FIRST_QUERY)

    def refresh(self) -> None:
        """The catalog, as `lockstep source refresh` writes it."""
        with self.owner() as owner:
            catalog = read_database_catalog(owner, SOURCE, ("public",))
        self._write(f"include/sources/{SOURCE}/catalog.lock", write_catalog(catalog))

    def make_tables(self, late: Late) -> None:
        with self.owner() as owner:
            if late.fact != FIRST:
                owner.execute(
                    f"CREATE TABLE {late.fact} (LIKE containers INCLUDING ALL);"
                    f"INSERT INTO {late.fact} SELECT * FROM containers"
                )
            owner.execute(
                f"CREATE TABLE {late.table} (id int PRIMARY KEY, name text, note text);"
                f"ALTER TABLE {late.table} ALTER note SET STORAGE EXTERNAL;"
                f"INSERT INTO {late.table} SELECT id, 'n' || id, repeat(id::text, "
                f"{NOTE_CHARACTERS}) FROM generate_series(0, {PLACES - 1}) AS id"
            )

    def publish(self, late: Late) -> None:
        """What an administrator runs, and then the pipeline's folder."""
        with self.owner() as owner:
            owner.execute(f"ALTER PUBLICATION lockstep__yard ADD TABLE {', '.join(late.tables)}")
        self.refresh()
        self.write_pipeline(late.name, late.fact, late.query)

    def write_pipeline(self, name: str, fact: str, query: str) -> None:
        self._write(f"{PIPELINES}/{name}/pipeline.toml", MANIFEST.format(fact=fact))
        self._write(f"{PIPELINES}/{name}/query.sql", query)
        columns = {"id": "int", "moved_at": "timestamp", "weight": "int"}
        if "t.note" in query:
            columns = {"id": "int", "moved_at": "timestamp", "own": "int"}
            columns |= {"name": "string", "note": "string"}
        text = write_result(columns, name, self.plan(name).version)
        self._write(f"{PIPELINES}/{name}/{RESULT_FILE}", text)

    def plan(self, name: str) -> Plan:
        return plan_named(self.folder, name)

    def _write(self, path: str, text: str) -> None:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


CONTAINERS, PLACES = 40, 8
