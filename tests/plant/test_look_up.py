"""Mode lookup of any pipeline: what one statement sees of its facts, and what it knows of when."""

from collections.abc import Callable
from datetime import datetime

import pytest
from lockstep.pipeline.catalog import write_catalog
from lockstep.pipeline.errors import PipelineError
from lockstep.pipeline.names import quoted
from lockstep.pipeline.result import RESULT_FILE, write_result
from lockstep.sources import row_lookup
from lockstep.sources.database_catalog import read_database_catalog
from lockstep.sources.lookup_statement import look_up_statement
from lockstep.sources.postgres import connect_to
from lockstep.sources.row_lookup import Question
from lockstep.sources.source_database import reader_of

from tests.plant.conftest import PlantProject

pytestmark = pytest.mark.services
TABLES = """
CREATE TABLE $schema.part (id integer PRIMARY KEY, label text, parent_id integer);
CREATE TABLE $schema.parcel (
    depot text, number numeric(6,1), part_id integer, sent_at timestamptz, content bytea,
    PRIMARY KEY (depot, number)
);
CREATE VIEW $schema.sent AS
SELECT p.depot, p.number AS "no, 100%", a.label, b.label AS parent, p.sent_at, p.content,
    ARRAY[a.id, b.id] AS parts
FROM $schema.parcel AS p
LEFT JOIN $schema.part AS a ON a.id = p.part_id
LEFT JOIN $schema.part AS b ON b.id = a.parent_id;
INSERT INTO $schema.part VALUES (1, 'box', NULL), (2, 'lid', 1), (3, 'lost', 99);
INSERT INTO $schema.parcel VALUES
    ('no''rth', 1, 2, '2026-01-01 12:00:00.123456+00', decode(repeat('ab', 100), 'hex')),
    ('south', 1, 1, NULL, NULL), ('south', 2, 3, NULL, NULL), ('south', 3, 77, NULL, NULL),
    ('south', 4, NULL, NULL, NULL);
GRANT SELECT ON ALL TABLES IN SCHEMA $schema TO $reader;
"""
QUERY = f"""
SELECT p.depot, p.number AS {quoted("no, 100%")}, a.label, b.label AS parent, p.sent_at, p.content,
    array(a.id, b.id) AS parts
FROM $schema.parcel AS p
LEFT JOIN $schema.part AS a ON a.id = p.part_id
LEFT JOIN $schema.part AS b ON b.id = a.parent_id
"""
MANIFEST = """
format_version = 1
sources = ["$source"]
semantics = "as_of_commit"
fact = "$schema.parcel"
key = ["depot", "no, 100%"]
view = "$schema.sent"
modes = ["lookup"]
"""
RESULT = {
    "depot": "string",
    "no, 100%": "decimal(6,1)",
    "label": "string",
    "parent": "string",
    "sent_at": "timestamp",
    "content": "binary",
    "parts": "array<int>",
}
NOW = "SELECT clock_timestamp()"


@pytest.fixture
def parcels(plant: PlantProject) -> PlantProject:
    plant.execute(TABLES)
    names = plant.plant
    with plant.owner() as connection:
        catalog = read_database_catalog(connection, names.source, ("public", names.schema))
    source = plant.folder / "include" / "sources" / names.source
    (source / "catalog.lock").write_text(write_catalog(catalog))
    folder = plant.folder / "include" / "sql" / names.pipeline
    (folder / "query.sql").write_text(names.sql(QUERY))
    (folder / "pipeline.toml").write_text(names.sql(MANIFEST))
    (folder / RESULT_FILE).write_text(write_result(RESULT, plant.plan.name, plant.plan.version))
    return plant


@pytest.fixture
def look_up(parcels: PlantProject) -> Callable[..., list[dict]]:
    """What is seen of these keys, in their order."""

    def seen(*keys: tuple) -> list[dict]:
        target = reader_of(parcels.settings, parcels.source)
        with connect_to(target) as connection:
            catalog, plan = parcels.source.catalog, parcels.plan
            statement = look_up_statement(connection, catalog, plan, target.role)
            rows = row_lookup._rows(connection, Question(target, statement, plan.result), keys)
        return row_lookup._as_arrow(keys, rows, plan.result).to_pylist()

    return seen


def test_a_row_is_found_by_its_whole_key(look_up: Callable[..., list[dict]]) -> None:
    first, second = look_up(("no'rth", 1), ("south", 1))
    assert (first["depot"], first["no, 100%"], first["label"]) == ("no'rth", 1, "lid")
    assert (first["parent"], first["parts"], first["content"]) == ("box", [2, 1], b"\xab" * 100)
    assert first["sent_at"] == datetime.fromisoformat("2026-01-01T12:00:00.123456Z")
    assert (second["label"], second["parts"], second["sent_at"]) == ("box", [1, None], None)
    assert first["is_whole"]
    assert second["is_whole"]


def test_what_refers_to_nothing_is_not_whole_unless_it_is_null(
    look_up: Callable[..., list[dict]],
) -> None:
    found = look_up(("south", 2), ("south", 3), ("south", 4))
    assert [row["is_whole"] for row in found] == [False, False, True]


def test_a_row_that_is_not_there_has_the_moment_alone(look_up: Callable[..., list[dict]]) -> None:
    here, gone = look_up(("south", 1), ("north", 1))
    assert gone["snapshot"] == here["snapshot"] is not None
    assert gone["wal_lsn"] == here["wal_lsn"] > 0
    assert {name for name, value in gone.items() if value is not None} == {
        "depot",
        "no, 100%",
        "snapshot",
        "wal_lsn",
    }


@pytest.mark.parametrize(
    ("part", "is_newer"), [(2, True), (1, True), (3, False)], ids=["its own", "parent", "other"]
)
def test_the_newest_commit_is_that_of_all_that_it_leads_to(
    parcels: PlantProject, look_up: Callable[..., list[dict]], part: int, is_newer: bool
) -> None:
    with parcels.owner() as owner:
        (before,) = owner.execute(NOW).fetchone()
    parcels.execute("UPDATE $schema.part SET label = label || '!' WHERE id = %s", (part,))
    (row,) = look_up(("no'rth", 1))
    assert row["fact_committed_at"] < before
    assert (row["newest_committed_at"] > before) == is_newer


def test_nothing_is_whole_where_a_row_could_go_unseen(
    parcels: PlantProject, look_up: Callable[..., list[dict]]
) -> None:
    """Of parts that are not unique one may be deleted, and another one still be found."""
    parcels.execute("ALTER TABLE $schema.part DROP CONSTRAINT part_pkey")
    assert [row["is_whole"] for row in look_up(("no'rth", 1), ("south", 4))] == [False, False]


def test_a_key_that_cannot_be_asked_for_is_refused(
    parcels: PlantProject, look_up: Callable[..., list[dict]]
) -> None:
    file = parcels.folder / "include" / "sources" / parcels.plant.source / "catalog.lock"
    text = file.read_text().replace("numeric(6,1)", "timestamp without time zone")
    file.write_text(text)
    manifest = parcels.folder / "include" / "sql" / parcels.plant.pipeline / "pipeline.toml"
    zone = parcels.plant.sql('time_zones = { "$schema.parcel.number" = "Europe/Berlin" }\n')
    manifest.write_text(manifest.read_text() + zone)
    lock = manifest.with_name(RESULT_FILE)
    lock.write_text(write_result(RESULT, parcels.plan.name, parcels.plan.version))
    with pytest.raises(PipelineError, match="mode lookup cannot ask for"):
        look_up(("south", 1))
