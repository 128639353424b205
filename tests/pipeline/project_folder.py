"""A small project's folder for tests, about sensors and their readings."""

from pathlib import Path

from lockstep.pipeline.catalog import Catalog, Column, Table, TableName, write_catalog

SOURCE = """\
format_version = 1
kind = "postgres"
host = "db.example.com"
database = "depot"
roles = { read = "reader", capture = "follower" }
"""
MANIFEST = """\
format_version = 1
sources = ["depot"]
semantics = "as_of_commit"
fact = "readings"
key = ["reading_id"]
"""
TIME_ZONE = '[time_zones]\n"readings.at" = "Europe/Berlin"\n'
QUERY = "SELECT id AS reading_id, at FROM readings\n"
READINGS = Table(
    TableName("public", "readings"),
    (Column("id", "bigint", False), Column("at", "timestamp without time zone")),
    ("id",),
)


def write(folder: Path, path: str, text: str) -> None:
    """A file below a project's folder."""
    file = folder / "include" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def write_source(folder: Path, name: str = "depot", text: str = SOURCE) -> None:
    write(folder, f"sources/{name}/source.toml", text)
    write(folder, f"sources/{name}/catalog.lock", write_catalog(Catalog(name, (READINGS,))))


def write_pipeline(folder: Path, name: str, text: str = MANIFEST) -> None:
    write(folder, f"sql/{name}/pipeline.toml", text)
    write(folder, f"sql/{name}/query.sql", QUERY)
