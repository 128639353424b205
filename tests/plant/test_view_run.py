"""The hourly run that reads a pipeline's view: rows as those of the query, or a refusal.

The fact has a key of two columns, one of them a uuid; the result has an array of structs and a map.
"""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from lockstep.batch.errors import ResultRefusedError
from lockstep.batch.preflight import check_readable
from lockstep.batch.run import run_pipeline
from lockstep.cdc.run_commits import RunCommit
from lockstep.cli import app
from lockstep.enrich.plans import result_columns
from lockstep.errors import LockstepError
from lockstep.model.modes import ReadMode
from lockstep.model.window import Window
from lockstep.pipeline.catalog import write_catalog
from lockstep.pipeline.errors import CatalogError, PipelineError
from lockstep.pipeline.result import RESULT_FILE, write_result
from lockstep.sources.database_catalog import read_database_catalog
from lockstep.sources.delta import open_table
from lockstep.sources.errors import PostgresUnavailableError, SourceValueError
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from tests.plant.conftest import PlantProject

pytestmark = [pytest.mark.spark, pytest.mark.services]

WINDOW = Window.parse("2026-03-28T12:00Z", "2026-03-28T13:00Z")
TABLES = """
CREATE TABLE $schema.part (id integer PRIMARY KEY, label text, price numeric(8,2));
CREATE TABLE $schema.shipment (
    depot uuid, "number" bigint, sent_at timestamptz NOT NULL, part_id integer, weights integer[],
    code char(4), PRIMARY KEY (depot, "number")
);
INSERT INTO $schema.part SELECT n, 'part ' || n, n * 1.25 FROM generate_series(1, 5) AS n;
INSERT INTO $schema.shipment
SELECT
    ('00000000-0000-0000-0000-00000000000' || n % 3)::uuid, n,
    timestamptz '2026-03-28 11:00+00' + n * interval '1 min', n % 7, ARRAY[n, NULL, n * 2],
    CASE WHEN n % 2 = 0 THEN 'c' || n END
FROM generate_series(0, 179) AS n;
CREATE VIEW $schema.shipped AS
SELECT
    s.depot, s."number" AS "no-of-it", s.sent_at, p.label, s.weights, s.code,
    p.price * 3 AS "total-""sum""-due",
    json_build_array(json_build_object('label', p.label, 'price', p.price)) AS parts
FROM $schema.shipment AS s LEFT JOIN $schema.part AS p ON p.id = s.part_id;
GRANT SELECT ON $schema.part, $schema.shipment, $schema.shipped TO $reader
"""
QUERY = """
SELECT
    s.depot, s.number AS `no-of-it`, s.sent_at, p.label, s.weights, s.code,
    CAST(p.price * 3 AS decimal(12, 3)) AS `total-"sum"-due`,
    array(named_struct('label', p.label, 'price', p.price)) AS parts
FROM $schema.shipment AS s
LEFT JOIN $schema.part AS p ON p.id = s.part_id
"""
MANIFEST = """
format_version = 1
sources = ["$source"]
semantics = "as_of_commit"
fact = "$schema.shipment"
key = ["depot", "no-of-it"]
time = "sent_at"
view = "$schema.shipped"
"""


def file_of(plant: PlantProject, name: str) -> Path:
    return plant.folder / "include" / "sql" / plant.plant.pipeline / name


def lock(spark: SparkSession, plant: PlantProject) -> None:
    text = write_result(result_columns(spark, plant.plan), plant.plan.name, plant.plan.version)
    file_of(plant, RESULT_FILE).write_text(text)


@pytest.fixture
def shipments(spark: SparkSession, plant: PlantProject) -> PlantProject:
    plant.execute(TABLES)
    names = plant.plant
    with plant.owner() as connection:
        catalog = read_database_catalog(connection, names.source, ("public", names.schema))
    folder = plant.folder / "include" / "sources" / names.source
    (folder / "catalog.lock").write_text(write_catalog(catalog))
    file_of(plant, "query.sql").write_text(names.sql(QUERY))
    file_of(plant, "pipeline.toml").write_text(names.sql(MANIFEST))
    lock(spark, plant)
    return plant


def run(
    spark: SparkSession, plant: PlantProject, mode: ReadMode, window: Window | None = WINDOW
) -> RunCommit:
    pipeline = plant.project.pipeline(plant.plant.pipeline)
    small = plant.settings.model_copy(update={"batch_slice_rows": 25})
    return run_pipeline(spark, small, pipeline, window, mode).commit


def table_of(plant: PlantProject) -> Any:
    return open_table(plant.settings.table_uri(plant.plan.hourly_table))


def rows_of(plant: PlantProject) -> list[dict]:
    """The author's columns of every row, in the key's order."""
    rows = table_of(plant).to_pyarrow_table().select(plant.plan.outputs).to_pylist()
    return sorted(rows, key=lambda row: row["no-of-it"])


def test_the_views_rows_are_those_of_the_query(
    spark: SparkSession, shipments: PlantProject
) -> None:
    """Into the same table, whose columns are the same."""
    run(spark, shipments, ReadMode.TABLES)
    by_query = rows_of(shipments)
    commit = run(spark, shipments, ReadMode.VIEW)
    assert rows_of(shipments) == by_query
    assert [row["no-of-it"] for row in by_query] == list(range(60, 120))
    assert by_query[1]["weights"] == [61, None, 122]
    assert {row["code"] for row in by_query} >= {None, "c60 "}
    assert commit == RunCommit.from_json(table_of(shipments).history(1)[0]["userMetadata"])
    assert (commit.read_mode, commit.orders_at_cut) == (ReadMode.VIEW, 60)
    assert commit.pipeline_version == shipments.plan.version


@pytest.mark.parametrize("is_first", [True, False])
def test_a_view_that_drops_rows_does_not_say_how_many_there_are(
    spark: SparkSession, shipments: PlantProject, is_first: bool
) -> None:
    """The facts are counted, so that the checks find what is missing; by both ways of writing."""
    if not is_first:
        run(spark, shipments, ReadMode.VIEW)
    view = TABLES[TABLES.index("CREATE VIEW") : TABLES.index("GRANT")]
    view = view.replace("CREATE VIEW", "CREATE OR REPLACE VIEW").replace("LEFT JOIN", "INNER JOIN")
    shipments.execute(view)
    commit = run(spark, shipments, ReadMode.VIEW)
    assert commit.orders_at_cut == 60
    assert 0 < len(rows_of(shipments)) < 60


def test_facts_of_local_times_are_counted_by_their_instants(
    spark: SparkSession, shipments: PlantProject
) -> None:
    """Berlin is an hour ahead of UTC: by their local times the hour would have twice as many."""
    shipments.execute(
        'DELETE FROM $schema.shipment WHERE "number" >= 90; DROP VIEW $schema.shipped;'
        "ALTER TABLE $schema.shipment ALTER sent_at TYPE timestamp "
        "USING sent_at AT TIME ZONE 'Europe/Berlin'"
    )
    view = TABLES[TABLES.index("CREATE VIEW") : TABLES.index("GRANT")]
    shipments.execute(
        view.replace("s.sent_at,", "s.sent_at AT TIME ZONE 'Europe/Berlin' AS sent_at,")
    )
    shipments.execute("GRANT SELECT ON $schema.shipped TO $reader")
    names = shipments.plant
    with shipments.owner() as connection:
        catalog = read_database_catalog(connection, names.source, ("public", names.schema))
    folder = shipments.folder / "include" / "sources" / names.source
    (folder / "catalog.lock").write_text(write_catalog(catalog))
    zone = '\n[time_zones]\n"$schema.shipment.sent_at" = "Europe/Berlin"\n'
    file_of(shipments, "pipeline.toml").write_text(names.sql(MANIFEST + zone))
    lock(spark, shipments)
    for mode in (ReadMode.TABLES, ReadMode.VIEW):
        commit = run(spark, shipments, mode)
        assert (commit.orders_at_cut, len(rows_of(shipments))) == (30, 30), mode


def test_a_view_is_read_under_the_runs_snapshot(
    spark: SparkSession, shipments: PlantProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What commits after the snapshot, and before the marker, is not in the table."""
    from lockstep.batch import run as hourly_run

    mark_cut = hourly_run.mark_cut

    def change_then_mark(*arguments: Any) -> Any:
        shipments.execute("UPDATE $schema.part SET label = 'renamed'")
        return mark_cut(*arguments)

    monkeypatch.setattr(hourly_run, "mark_cut", change_then_mark)
    run(spark, shipments, ReadMode.VIEW)
    assert len(rows_of(shipments)) == 60
    assert "renamed" not in {row["label"] for row in rows_of(shipments)}


def test_a_view_without_a_time_is_read_whole(spark: SparkSession, shipments: PlantProject) -> None:
    file = file_of(shipments, "pipeline.toml")
    file.write_text(file.read_text().replace('time = "sent_at"', ""))
    lock(spark, shipments)
    assert run(spark, shipments, ReadMode.VIEW, None).orders_at_cut == 180
    assert len(rows_of(shipments)) == 180


def test_a_view_by_days_is_of_days_in_utc(spark: SparkSession, shipments: PlantProject) -> None:
    shipments.execute(
        "DROP VIEW $schema.shipped;"
        'CREATE VIEW $schema.shipped AS SELECT depot, "number" AS "no-of-it", '
        'sent_at::date + ("number" % 2)::int AS day FROM $schema.shipment;'
        "GRANT SELECT ON $schema.shipped TO $reader"
    )
    file_of(shipments, "query.sql").write_text(
        shipments.plant.sql(
            "SELECT s.depot, s.number AS `no-of-it`, "
            "date_add(CAST(s.sent_at AS date), CAST(s.number % 2 AS int)) AS day "
            "FROM $schema.shipment AS s"
        )
    )
    file = file_of(shipments, "pipeline.toml")
    file.write_text(file.read_text().replace('time = "sent_at"', 'time = "day"'))
    lock(spark, shipments)
    start = WINDOW.start.replace(hour=0)
    days = Window(start, start + timedelta(days=1))
    assert run(spark, shipments, ReadMode.VIEW, days).orders_at_cut == 90
    assert {row["day"] for row in rows_of(shipments)} == {start.date()}


VIEW = "$schema.shipped"
NO_RIGHT_BUT = (
    "REVOKE SELECT ON $schema.shipment FROM $reader; "
    "GRANT SELECT ({}) ON $schema.shipment TO $reader"
)
UNREADY: dict[str, tuple[str, type[LockstepError], str]] = {
    "there is none": (f"DROP VIEW {VIEW}", CatalogError, f"has no view {VIEW}, which pipeline"),
    "a column is missing": (
        f"ALTER VIEW {VIEW} RENAME label TO other",
        CatalogError,
        f"view {VIEW} lacks label, which query.sql of pipeline",
    ),
    "a type with other values": (
        (
            f"DROP VIEW {VIEW}; CREATE VIEW {VIEW} AS SELECT depot, weights, code, "
            "sent_at::timestamp AS sent_at, NULL::json AS parts, NULL::text AS label, "
            '"number" AS "no-of-it", 1.0 AS "total-""sum""-due" FROM $schema.shipment'
        ),
        CatalogError,
        "make an instant of it in the view, by AT TIME ZONE with the zone that",
    ),
    "no right": (
        f"REVOKE SELECT ON {VIEW} FROM $reader",
        PostgresUnavailableError,
        "the role $reader may not read depot",
    ),
    "no right to the fact's time": (
        NO_RIGHT_BUT.format("depot, number, xmin"),
        PostgresUnavailableError,
        "the role $reader may not read sent_at of table $schema.shipment",
    ),
    "no right to the fact's origin": (
        NO_RIGHT_BUT.format("sent_at, number"),
        PostgresUnavailableError,
        "the role $reader may not read xmin, depot of table $schema.shipment",
    ),
}


@pytest.mark.parametrize(("change", "kind", "message"), UNREADY.values(), ids=UNREADY)
def test_a_view_that_cannot_be_read_is_refused_before_spark_starts(
    shipments: PlantProject, change: str, kind: type[LockstepError], message: str
) -> None:
    pipeline, plan = shipments.project.pipeline(shipments.plant.pipeline), shipments.plan
    check_readable(shipments.settings, pipeline, plan, ReadMode.VIEW)
    shipments.execute(change)
    with pytest.raises(kind) as refused:
        check_readable(shipments.settings, pipeline, plan, ReadMode.VIEW)
    assert shipments.plant.sql(message) in str(refused.value)


def test_without_a_view_in_the_manifest_the_command_says_what_to_write(
    shipments: PlantProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before Spark is started."""
    monkeypatch.setattr("lockstep.settings.Settings.load", lambda: shipments.settings)
    file = file_of(shipments, "pipeline.toml")
    file.write_text("\n".join(x for x in file.read_text().splitlines() if x[:4] != "view"))
    window = (WINDOW.start.isoformat(), WINDOW.end.isoformat())
    command = ["pipeline", "run", shipments.plant.pipeline, *window, "--read", "view"]
    refused = CliRunner().invoke(app, command).exception
    assert isinstance(refused, PipelineError)
    assert 'write `view = "schema.view"` in include/sql/' in str(refused)


UNSOUND: dict[str, tuple[str, type[LockstepError], str]] = {
    "a number that would be rounded": (
        "ALTER TABLE $schema.part ALTER price TYPE numeric(9,4)",
        SourceValueError,
        'column total-"sum"-due: ',
    ),
    "a time that no window holds": (
        "UPDATE $schema.shipment SET sent_at = 'infinity' WHERE \"number\" = 7",
        SourceValueError,
        "1 rows of the view $schema.shipped have a sent_at that no window holds",
    ),
    "JSON of another type": (
        "UPDATE $schema.part SET label = label",
        ResultRefusedError,
        "gives an array, struct or map that is not of the type",
    ),
    "two rows of a key": (
        "ALTER TABLE $schema.part DROP CONSTRAINT part_pkey; INSERT INTO $schema.part VALUES (1)",
        ResultRefusedError,
        "rows of the key depot 00000000-0000-0000-0000-00000000000",
    ),
}
MADE = {
    "a number that would be rounded": ("p.price * 3", "p.price * 3.00001"),
    "JSON of another type": ("'price', p.price", "'price', p.label"),
}


def spoil(shipments: PlantProject, name: str) -> None:
    change = UNSOUND[name][0]
    if name in MADE:
        view = TABLES[TABLES.index("CREATE VIEW") : TABLES.index("GRANT")]
        change = view.replace("CREATE VIEW", "CREATE OR REPLACE VIEW").replace(*MADE[name])
    shipments.execute(change)


@pytest.mark.parametrize("name", UNSOUND)
def test_a_view_whose_rows_cannot_be_kept_makes_no_table(
    spark: SparkSession, shipments: PlantProject, name: str
) -> None:
    """Spark writes them as they come: no table is there that they could be collected for."""
    spoil(shipments, name)
    kind, message = UNSOUND[name][1:]
    with pytest.raises(kind) as refused:
        run(spark, shipments, ReadMode.VIEW)
    assert shipments.plant.sql(message) in str(refused.value)
    assert not DeltaTable.is_deltatable(shipments.settings.table_uri(shipments.plan.hourly_table))


@pytest.mark.parametrize("name", UNSOUND)
def test_a_view_whose_rows_cannot_be_kept_is_refused_and_the_table_stays(
    spark: SparkSession, shipments: PlantProject, name: str
) -> None:
    run(spark, shipments, ReadMode.VIEW)
    version = table_of(shipments).version()
    spoil(shipments, name)
    kind, message = UNSOUND[name][1:]
    with pytest.raises(kind) as refused:
        run(spark, shipments, ReadMode.VIEW)
    assert shipments.plant.sql(message) in str(refused.value)
    assert table_of(shipments).version() == version
