"""`lockstep pipeline check --rows` and `preview`: a view compared with its query, row by row."""

from decimal import Decimal

import pytest
from lockstep.batch.errors import ResultRefusedError
from lockstep.batch.preview import preview, previews
from lockstep.batch.view_check import KEPT_OF_A_KIND, ViewCheck, check_view
from lockstep.cli.pipeline_rows import _show
from lockstep.enrich.plans import result_columns
from lockstep.model.window import Window
from lockstep.pipeline.catalog import write_catalog
from lockstep.pipeline.errors import PipelineError
from lockstep.pipeline.folder import CATALOG_FILE, QUERY_FILE
from lockstep.pipeline.plan import plan_of
from lockstep.pipeline.project_files import PIPELINE_FILE, PIPELINES, SOURCES
from lockstep.pipeline.result import RESULT_FILE, write_result
from lockstep.sources.database_catalog import read_database_catalog
from lockstep.sources.new_pipeline import new_pipeline
from pyspark.sql import SparkSession
from rich.console import Console

from tests.conftest import Kept
from tests.plant.conftest import PlantProject

pytestmark = [pytest.mark.spark, pytest.mark.services]

WINDOW = Window.parse("2026-03-28T12:00Z", "2026-03-28T13:00Z")
ROWS = """
INSERT INTO public.$site VALUES ('n', 'North');
INSERT INTO $schema.$sensor
SELECT ('00000000-0000-0000-0000-00000000000' || n)::uuid, n, 'sensor ' || n, n, 'n'
FROM generate_series(1, 3) AS n;
INSERT INTO $schema.$fact
SELECT ('10000000-0000-0000-0000-' || lpad(n::text, 12, '0'))::uuid,
    ('00000000-0000-0000-0000-00000000000' || 1 + n % 4)::uuid, n,
    timestamptz '2026-03-28 11:30+00' + n * interval '1 min'
FROM generate_series(0, 119) AS n;
"""
VIEW = """
CREATE OR REPLACE VIEW $schema.seen AS
SELECT r.$id AS $reading_id, r.$taken_at AS $measured_at, s.$name AS $sensor_name, {city} AS $city,
    {amount} AS $amount
FROM $schema.$fact AS r
LEFT JOIN $schema.$sensor AS s ON r.$sensor_id = s.$id
LEFT JOIN public.$site AS w ON s.$site_code = w.$code {where};
GRANT SELECT ON $schema.seen TO $reader;
"""

OTHERWISE = """
CREATE TYPE $schema.grade AS ENUM ('good', 'bad', 'lost');
CREATE DOMAIN $schema.mark AS text;
CREATE TABLE $schema.ended (
    $id uuid PRIMARY KEY, grade $schema.grade NOT NULL, mark $schema.mark, ended timestamptz,
    day date
);
INSERT INTO $schema.ended
SELECT $id, (ARRAY['good', 'bad', 'lost'])[1 + $value::integer % 3]::$schema.grade,
    CASE WHEN $value::integer % 2 = 0 THEN 'even' END,
    $taken_at + $value * interval '40 min 0.000001 sec', $taken_at::date + 3
FROM $schema.$fact WHERE $value::integer % 5 <> 0;
CREATE VIEW $schema.otherwise AS
SELECT r.$id AS $reading_id, r.$taken_at AS $measured_at, e.grade,
    CASE e.grade WHEN 'lost' THEN 1 ELSE 0 END AS lost, e.grade IN ('bad', 'lost') AS is_poor,
    e.grade NOT IN ('lost') AS is_there, e.mark = 'even'::$schema.mark AS is_even,
    extract(epoch FROM e.ended - r.$taken_at)::numeric(19, 6) AS seconds,
    extract(epoch FROM e.ended)::numeric(19, 6) AS since, extract(dow FROM e.day)::integer AS dow,
    extract(isodow FROM e.ended)::integer AS isodow, e.day - r.$taken_at::date AS days,
    e.ended + r.$value::double precision * interval '1 day' AS until,
    r.$taken_at - interval '1 mon' AS a_month_before, e.ended + interval '1 day 02:00' AS later
FROM $schema.$fact AS r LEFT JOIN $schema.ended AS e USING ($id);
GRANT SELECT ON $schema.ended, $schema.otherwise TO $reader;
"""


@pytest.fixture
def seen(plant: PlantProject) -> PlantProject:
    plant.execute(ROWS)
    file = plant.folder / PIPELINES / plant.plant.pipeline / PIPELINE_FILE
    view = f'view = "{plant.plant.schema}.seen"\n\n[tolerate]'
    file.write_text(file.read_text().replace("[tolerate]", view, 1))
    return plant


def checked(
    spark: SparkSession,
    plant: PlantProject,
    city: str = "w.$city",
    amount: str = "r.$value * s.$factor",
    where: str = "",
) -> ViewCheck:
    plant.execute(VIEW.format(city=city, amount=amount, where=where))
    pipeline = plant.project.pipeline(plant.plant.pipeline)
    return check_view(spark, plant.settings, pipeline, WINDOW)


def test_a_view_of_the_same_meaning_has_the_same_rows(
    spark: SparkSession, seen: PlantProject
) -> None:
    assert checked(spark, seen) == ViewCheck(60, 0, 0, 0, ())


def test_a_query_that_was_made_of_a_view_has_the_view_s_rows(
    spark: SparkSession, seen: PlantProject
) -> None:
    """Enums, USING, seconds and days between times: what PostgreSQL and Spark write otherwise."""
    seen.execute(OTHERWISE)
    names = seen.plant
    with seen.owner() as owner:
        catalog = read_database_catalog(owner, names.source, ("public", names.schema))
    (seen.folder / SOURCES / names.source / CATALOG_FILE).write_text(write_catalog(catalog))
    folder, made = new_pipeline(seen.settings, "fresh", names.source, f"{names.schema}.otherwise")
    assert made.refused is None, made.query
    plan = plan_of(seen.project.pipeline("fresh"))
    lock = write_result(result_columns(spark, plan), "fresh", plan.version)
    (seen.folder / folder / RESULT_FILE).write_text(lock)
    found = check_view(spark, seen.settings, seen.project.pipeline("fresh"), WINDOW)
    assert found == ViewCheck(60, 0, 0, 0, ())


def test_a_view_of_another_meaning_is_named_with_its_first_rows(
    spark: SparkSession, seen: PlantProject
) -> None:
    """Every fourth reading is of no sensor."""
    found = checked(spark, seen, amount="round(r.$value * coalesce(s.$factor, 0))")
    assert (found.rows, found.differing, found.is_same) == (60, 15, False)
    assert len(found.examples) == KEPT_OF_A_KIND
    names = seen.plant
    assert {tuple(row.view) for row in found.examples} == {(names.amount,)}
    assert found.examples[0].view == {names.amount: Decimal(0)}
    assert found.examples[0].query == {names.amount: None}


def test_rows_of_one_side_alone_are_counted_with_the_window_of_each(
    spark: SparkSession, seen: PlantProject
) -> None:
    found = checked(spark, seen, where="WHERE s.$id IS NOT NULL")
    assert (found.rows, found.only_in_query, found.only_in_view, found.differing) == (60, 15, 0, 0)
    assert all(row.view is None and row.query for row in found.examples)


def test_a_key_that_the_view_gives_twice_is_refused(
    spark: SparkSession, seen: PlantProject
) -> None:
    with pytest.raises(ResultRefusedError, match="has 2 rows of the key"):
        checked(spark, seen, where="CROSS JOIN generate_series(1, 2)")


def test_what_is_printed_names_key_column_and_both_values(
    spark: SparkSession, seen: PlantProject, capsys: pytest.CaptureFixture[str]
) -> None:
    found = checked(spark, seen, city="coalesce(w.$city, 'none')")
    _show(Console(highlight=False, width=100), ("reading",), found)
    shown = capsys.readouterr().out
    assert "of 60 rows 15 differ, 0 are in the view alone, 0 in the query alone" in shown
    first = next(line for line in shown.splitlines() if line.startswith("10000000"))
    assert first.split()[1:] == [seen.plant.city, "none", "None"]


def test_a_preview_has_the_first_rows_of_the_query_and_needs_no_lock(
    spark: SparkSession, seen: PlantProject
) -> None:
    names = seen.plant
    (seen.folder / PIPELINES / names.pipeline / RESULT_FILE).unlink()
    pipeline = seen.project.pipeline(names.pipeline)
    rows = preview(spark, seen.settings, pipeline, WINDOW, 3).rows
    assert [row[names.measured_at].minute for row in rows] == [0, 1, 2]
    assert [row[names.sensor_name] for row in rows] == ["sensor 3", None, "sensor 1"]
    assert tuple(rows[0]) == plan_of(pipeline).outputs
    assert not (seen.folder / "lakehouse").exists()


def test_a_watched_preview_follows_the_files_in_one_session(
    spark: SparkSession, seen: PlantProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is wrong with a file is shown in place of the rows, until the next change."""
    monkeypatch.setattr("lockstep.settings.Settings.load", lambda: seen.settings)
    sessions = [Kept(spark)]
    monkeypatch.setattr("lockstep.spark.spark_session", lambda *_: sessions.pop())
    names = seen.plant
    query = seen.folder / PIPELINES / names.pipeline / QUERY_FILE
    written = query.read_text()
    shown = previews(names.pipeline, WINDOW.start.isoformat(), WINDOW.end.isoformat(), 2)
    first = next(shown)
    assert [row[names.sensor_name] for row in first.rows] == ["sensor 3", None]
    query.write_text(written.replace(f"s.{names.name} AS", f"s.{names.name} ASS", 1))
    wrong = next(shown)
    assert isinstance(wrong, PipelineError)
    assert "query.sql:" in str(wrong)
    query.write_text(written.replace(f"s.{names.name} AS", f"upper(s.{names.name}) AS", 1))
    assert [row[names.sensor_name] for row in next(shown).rows] == ["SENSOR 3", None]
    assert not sessions


def test_a_preview_of_no_pipeline_is_refused_before_spark(
    seen: PlantProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lockstep.settings.Settings.load", lambda: seen.settings)
    monkeypatch.setattr("lockstep.spark.spark_session", lambda *_: pytest.fail("a session"))
    with pytest.raises(PipelineError, match="no_such"):
        next(previews("no_such", "", "", 2))
