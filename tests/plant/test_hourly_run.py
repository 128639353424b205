"""The hourly run of a pipeline whose names the library does not know: its rows, its refusals.

What the rows must be is asked of PostgreSQL, by the same joins.
"""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from threading import Event, Thread
from typing import Any

import pytest
from deltalake import DeltaTable
from lockstep.batch.errors import ResultRefusedError
from lockstep.batch.preflight import check_readable, check_writable, window_of
from lockstep.batch.reading import reading
from lockstep.batch.run import BatchRun, run_pipeline
from lockstep.cdc.cuts import Cut, mark_cut
from lockstep.cdc.run_commits import RunCommit
from lockstep.cli import app
from lockstep.errors import LakehouseError, LockstepError, WindowError
from lockstep.model.modes import ReadMode
from lockstep.model.window import Window
from lockstep.pipeline.catalog import write_catalog
from lockstep.pipeline.errors import CatalogError, PipelineError
from lockstep.pipeline.query.analysis import Query
from lockstep.pipeline.result_tables import HOURLY_COLUMNS, ORIGIN
from lockstep.sources.database_catalog import read_database_catalog
from lockstep.sources.delta import open_table
from lockstep.sources.errors import PostgresUnavailableError, SourceValueError
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from tests.conftest import Kept
from tests.plant.conftest import PlantProject

pytestmark = [pytest.mark.spark, pytest.mark.services]

DAY = datetime(2026, 3, 28, tzinfo=UTC)
HOUR = timedelta(hours=1)
WINDOW = Window(DAY + 12 * HOUR, DAY + 13 * HOUR)
FILLED = """
INSERT INTO $site SELECT 'c' || n, 'city ' || n FROM generate_series(1, 3) AS n;
INSERT INTO $schema.$sensor
SELECT gen_random_uuid(), n, 'sensor ' || n, n * 1.125, CASE WHEN n < 9 THEN 'c' || n % 5 END
FROM generate_series(1, 9) AS n;
INSERT INTO $schema.$fact
SELECT gen_random_uuid(), coalesce(s.$id, gen_random_uuid()), n * 7.331,
    timestamptz '2026-03-27 23:00+00' + n * interval '10 min'
FROM generate_series(0, 299) AS n LEFT JOIN $schema.$sensor AS s ON s.$serial = n % 11
"""
"""Three days of readings, ten minutes apart, some of unknown sensors, some sensors of no site."""
EXPECTED = """
SELECT r.$id::text, r.$taken_at, s.$name, w.$city, (r.$value * s.$factor)::numeric(18,6)
FROM $schema.$fact AS r
LEFT JOIN $schema.$sensor AS s ON r.$sensor_id = s.$id
LEFT JOIN public.$site AS w ON s.$site_code = w.$code
WHERE r.$taken_at >= %s AND r.$taken_at < %s
"""


@pytest.fixture
def filled(plant: PlantProject) -> PlantProject:
    plant.execute(FILLED)
    return plant


def run(spark: SparkSession, plant: PlantProject, window: Window | None = WINDOW) -> BatchRun:
    pipeline = plant.project.pipeline(plant.plant.pipeline)
    return run_pipeline(spark, plant.settings, pipeline, window)


def expected(plant: PlantProject, window: Window = WINDOW) -> list[tuple]:
    with plant.owner() as connection:
        connection.execute("SET TIME ZONE 'UTC'")
        found = connection.execute(plant.plant.sql(EXPECTED), [window.start, window.end])
        return sorted(found.fetchall())


def table_of(plant: PlantProject) -> Any:
    return open_table(plant.settings.table_uri(plant.plan.hourly_table))


def rows_of(plant: PlantProject) -> list[tuple]:
    """The author's columns of every row, in order."""
    table = table_of(plant).to_pyarrow_table()
    columns = [table[name].to_pylist() for name in plant.plan.outputs]
    return sorted(zip(*columns, strict=True))


def test_the_windows_rows_are_those_that_postgresql_gives(
    spark: SparkSession, filled: PlantProject
) -> None:
    done = run(spark, filled)
    wanted = expected(filled)
    assert len(wanted) == 6
    assert rows_of(filled) == wanted
    commit = RunCommit.from_json(table_of(filled).history(1)[0]["userMetadata"])
    assert commit == done.commit
    assert (commit.window, commit.read_mode) == (WINDOW, ReadMode.TABLES)
    assert commit.orders_at_cut == 6


def test_all_days_at_once_are_sliced_and_whole(spark: SparkSession, filled: PlantProject) -> None:
    days = Window(DAY - HOUR * 24, DAY + 72 * HOUR)
    small = filled.settings.model_copy(update={"batch_slice_rows": 20})
    pipeline = filled.project.pipeline(filled.plant.pipeline)
    done = run_pipeline(spark, small, pipeline, days)
    assert rows_of(filled) == expected(filled, days)
    assert done.commit.orders_at_cut == 300


def test_a_run_again_replaces_its_window_and_no_file_of_another_day(
    spark: SparkSession, filled: PlantProject
) -> None:
    run(spark, filled, Window(DAY - HOUR, DAY + 48 * HOUR))
    before, rows = table_of(filled), rows_of(filled)
    filled.execute("UPDATE $schema.$sensor SET $name = 'renamed'")
    run(spark, filled)
    run(spark, filled)
    wanted = [row for row in rows if not WINDOW.start <= row[1] < WINDOW.end]
    assert rows_of(filled) == sorted(wanted + expected(filled))
    assert "renamed" in {row[2] for row in rows_of(filled)}
    day = f"window_date={DAY:%Y-%m-%d}/"
    others = [file for file in before.file_uris() if day not in file]
    assert len(others) >= 2
    assert [file for file in table_of(filled).file_uris() if day not in file] == others


def test_windows_are_half_open(spark: SparkSession, filled: PlantProject) -> None:
    """Readings are taken at both borders; with a microsecond more or less they are not there."""
    last = WINDOW.end - timedelta(microseconds=1)
    for at in (WINDOW.start - timedelta(microseconds=1), last):
        filled.execute(
            "INSERT INTO $schema.$fact VALUES (gen_random_uuid(), gen_random_uuid(), 1, %s)", (at,)
        )
    run(spark, filled)
    times = [row[1] for row in rows_of(filled)]
    assert (min(times), max(times), len(times)) == (WINDOW.start, last, 7)


def test_an_empty_window_is_a_commit(spark: SparkSession, filled: PlantProject) -> None:
    quiet = Window(DAY + 9000 * HOUR, DAY + 9001 * HOUR)
    assert run(spark, filled, quiet).commit.orders_at_cut == 0
    assert (rows_of(filled), table_of(filled).version()) == ([], 0)
    run(spark, filled)
    before = rows_of(filled)
    run(spark, filled, quiet)
    assert (rows_of(filled), table_of(filled).version()) == (before, 2)


def test_each_row_has_its_day_and_the_cut(spark: SparkSession, filled: PlantProject) -> None:
    cut = run(spark, filled, Window(DAY - HOUR, DAY + HOUR)).commit.cut
    table = table_of(filled).to_pyarrow_table()
    assert table.column_names == [*filled.plan.outputs, *HOURLY_COLUMNS, *ORIGIN]
    assert set(zip(table["window_date"].to_pylist(), strict=True)) == {
        (date(2026, 3, 27),),
        (date(2026, 3, 28),),
    }
    for name, value in (
        ("run_id", cut.run_id),
        ("cut_snapshot", cut.snapshot),
        ("cut_lsn", cut.marker_lsn),
    ):
        assert set(table[name].to_pylist()) == {value}


def test_what_commits_after_the_snapshot_is_not_in_it_and_the_marker_comes_later(
    spark: SparkSession, filled: PlantProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer is busy from the snapshot on; an older transaction of it is still open."""
    wanted, stop, at = expected(filled), Event(), []
    reading = "INSERT INTO $schema.$fact SELECT gen_random_uuid(), $id, 1, %s FROM $schema.$sensor"

    def write() -> None:
        while not stop.is_set():
            filled.execute(reading, (WINDOW.start,))
            filled.execute("UPDATE $schema.$sensor SET $factor = $factor + 1")
            filled.execute("UPDATE $site SET $city = $city || 'x'")

    writer = Thread(target=write)

    def write_then_mark(*arguments: object) -> Cut:
        filled.execute(reading, (WINDOW.start,))
        writer.start()
        with filled.owner() as owner:
            at.append(owner.execute("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn").fetchone()[0])
        return mark_cut(*arguments)

    monkeypatch.setattr("lockstep.batch.run.mark_cut", write_then_mark)
    with filled.owner() as uncommitted:
        uncommitted.execute("BEGIN")
        uncommitted.execute(filled.plant.sql(reading), (WINDOW.start,))
        try:
            commit = run(spark, filled).commit
        finally:
            stop.set()
            writer.join()
    assert rows_of(filled) == wanted
    assert len(expected(filled)) > len(wanted) + 9
    assert commit.cut.marker_lsn >= at[0]


def test_an_hour_is_not_sorted_for_its_joins(spark: SparkSession, filled: PlantProject) -> None:
    """Nor for the origins: JDBC says nothing of sizes, so that each side says what is small."""
    pipeline = filled.project.pipeline(filled.plant.pipeline)
    with reading(spark, filled.settings, pipeline, WINDOW) as read:
        read.session.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
        rows = read.result(ReadMode.TABLES).rows
        planned = rows._jdf.queryExecution().executedPlan().toString()
    assert planned.count("BroadcastHashJoin") == 3
    assert "SortMergeJoin" not in planned


def test_the_marker_has_the_prefix_of_the_source(
    spark: SparkSession, filled: PlantProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefixes = []

    def mark(*arguments: Any) -> Cut:
        prefixes.append(arguments[-1])
        return mark_cut(*arguments)

    monkeypatch.setattr("lockstep.batch.run.mark_cut", mark)
    run(spark, filled)
    assert prefixes == [f"lockstep.cut.{filled.plant.source}"]


def changed_query(plant: PlantProject, old: str, new: str) -> None:
    file = plant.folder / "include" / "sql" / plant.plant.pipeline / "query.sql"
    text = file.read_text()
    assert plant.plant.sql(old) in text
    file.write_text(text.replace(plant.plant.sql(old), plant.plant.sql(new)))


def changed_manifest(plant: PlantProject, old: str, new: str) -> None:
    file = plant.folder / "include" / "sql" / plant.plant.pipeline / "pipeline.toml"
    text = file.read_text()
    assert plant.plant.sql(old) in text
    file.write_text(text.replace(plant.plant.sql(old), plant.plant.sql(new)))


def catalog_again(plant: PlantProject) -> None:
    names = plant.plant
    with plant.owner() as connection:
        catalog = read_database_catalog(connection, names.source, ("public", names.schema))
    file = plant.folder / "include" / "sources" / names.source / "catalog.lock"
    file.write_text(write_catalog(catalog))


def test_a_window_of_local_times_is_of_instants(spark: SparkSession, filled: PlantProject) -> None:
    """Berlin's clocks skip from 2:00 to 3:00 within this window, which is of 1:00 UTC."""
    filled.execute(
        "DELETE FROM $schema.$fact;"
        "ALTER TABLE $schema.$fact ALTER $taken_at TYPE timestamp;"
        "INSERT INTO $schema.$fact SELECT gen_random_uuid(), gen_random_uuid(), 1, at FROM unnest("
        "'{2026-03-29 01:29:59, 2026-03-29 01:30, 2026-03-29 01:59:59.999999, 2026-03-29 03:00,"
        "2026-03-29 03:29:59.999999, 2026-03-29 03:30}'::timestamp[]) AS at"
    )
    catalog_again(filled)
    changed_manifest(
        filled,
        "\n[tolerate]",
        '\n[time_zones]\n"$schema.$fact.$taken_at" = "Europe/Berlin"\n\n[tolerate]',
    )
    assert filled.plan.fact_time == filled.plant.taken_at
    start = datetime(2026, 3, 29, 0, 30, tzinfo=UTC)
    assert run(spark, filled, Window(start, start + HOUR)).commit.orders_at_cut == 4
    almost, half = timedelta(microseconds=1), timedelta(minutes=30)
    assert [row[1] for row in sorted(rows_of(filled), key=lambda row: row[1])] == [
        start,
        start + half - almost,
        start + half,
        start + HOUR - almost,
    ]


def test_a_time_that_is_computed_filters_the_result(
    spark: SparkSession, filled: PlantProject
) -> None:
    changed_query(filled, "r.$taken_at AS", "r.$taken_at + INTERVAL '0' SECOND AS")
    assert filled.plan.fact_time is None
    assert run(spark, filled).commit.orders_at_cut == 6
    assert rows_of(filled) == expected(filled)


def test_a_pipeline_without_a_time_is_replaced_whole(
    spark: SparkSession, filled: PlantProject
) -> None:
    changed_manifest(filled, 'time = "$measured_at"', "")
    everything = Window(DAY - 24 * HOUR, DAY + 72 * HOUR)
    for rows in (300, 100):
        commit = run(spark, filled, None).commit
        assert (commit.window, commit.orders_at_cut) == (None, rows)
        assert rows_of(filled) == expected(filled, everything)
        filled.execute(
            "DELETE FROM $schema.$fact WHERE ctid IN (SELECT ctid FROM $schema.$fact LIMIT 200)"
        )
    table = table_of(filled)
    assert table.schema().to_arrow().names == [
        *filled.plan.outputs,
        "run_id",
        "cut_snapshot",
        "cut_lsn",
    ]
    assert RunCommit.from_json(table.history(1)[0]["userMetadata"]) == commit
    assert table.metadata().partition_columns == []


def ready(plant: PlantProject) -> None:
    pipeline = plant.project.pipeline(plant.plant.pipeline)
    check_writable(plant.settings, pipeline)
    check_readable(plant.settings, pipeline, plant.plan, ReadMode.TABLES)


Unsound = tuple[str, type[LockstepError], str]
UNREADY: dict[str, Unsound] = {
    "a table is gone": (
        "DROP TABLE $site",
        CatalogError,
        "has no table public.$site, which catalog.lock has",
    ),
    "a column is gone": (
        "ALTER TABLE $site RENAME $city TO other",
        CatalogError,
        "no such column, and catalog.lock text: write the catalog again with `lockstep source add ",
    ),
    "a column has another type": (
        "ALTER TABLE $schema.$fact ALTER $value TYPE numeric(14,3)",
        CatalogError,
        "column $value: the database has numeric(14,3), and catalog.lock numeric(12,3)",
    ),
    "a column may be null now": (
        "ALTER TABLE $schema.$fact ALTER $taken_at DROP NOT NULL",
        CatalogError,
        "the database has timestamp with time zone, and catalog.lock timestamp with time zone NOT",
    ),
    "another primary key": (
        "ALTER TABLE $schema.$sensor DROP CONSTRAINT ${sensor}_pkey, ADD PRIMARY KEY ($serial)",
        CatalogError,
        "table $schema.$sensor: its primary key is ($serial) in the database, and ($id) in",
    ),
    "no right to a column": (
        "REVOKE SELECT ON $site FROM $reader; GRANT SELECT ($code) ON $site TO $reader",
        PostgresUnavailableError,
        "the role $reader may not read $city of table public.$site: GRANT USAGE",
    ),
    "no right to the schema": (
        "REVOKE USAGE ON SCHEMA $schema FROM $reader",
        PostgresUnavailableError,
        "the role $reader may not read $id, $sensor_id, $value, $taken_at of table $schema.$fact",
    ),
    "another table inherits from it": (
        "CREATE TABLE $schema.more () INHERITS ($schema.$sensor)",
        CatalogError,
        "other tables inherit from table $schema.$sensor (INHERITS)",
    ),
    "policies hide rows": (
        "ALTER TABLE $site ENABLE ROW LEVEL SECURITY",
        PostgresUnavailableError,
        "row-level security of table public.$site may hide rows from the role $reader",
    ),
}


@pytest.mark.parametrize("what", UNREADY)
def test_a_database_that_is_not_as_planned_is_refused_before_spark(
    plant: PlantProject, what: str
) -> None:
    ready(plant)
    statement, kind, message = UNREADY[what]
    plant.execute(statement)
    with pytest.raises(kind) as refused:
        ready(plant)
    assert plant.plant.sql(message) in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1


def test_a_column_that_is_not_read_may_change(plant: PlantProject) -> None:
    plant.execute("ALTER TABLE $schema.$sensor ADD new text, ALTER $serial TYPE bigint")
    ready(plant)


def test_a_wrong_address_or_password_is_named(
    plant: PlantProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting = f"LOCKSTEP_SOURCE_{plant.plant.source.upper()}_READ_PASSWORD"
    monkeypatch.setenv(setting, "not-the-secret")
    with pytest.raises(PostgresUnavailableError, match=f"correct {setting}") as refused:
        ready(plant)
    assert "not-the-secret" not in str(refused.value)
    file = plant.folder / "include" / "sources" / plant.plant.source / "source.toml"
    file.write_text(file.read_text().replace(f"port = {plant.settings.postgres_port}", "port = 1"))
    with pytest.raises(PostgresUnavailableError, match=r"127\.0\.0\.1:1 .*does not answer"):
        ready(plant)


def test_a_lakehouse_without_room_is_refused_before_spark_but_to_readers(
    plant: PlantProject,
) -> None:
    pipeline = plant.project.pipeline(plant.plant.pipeline)
    full = plant.settings.model_copy(update={"min_free_bytes": 2**60})
    with pytest.raises(LakehouseError, match="MiB are free"):
        check_writable(full, pipeline)
    check_readable(full, pipeline, plant.plan, ReadMode.TABLES)


def test_a_window_is_given_where_there_is_one(plant: PlantProject) -> None:
    assert window_of(plant.plan, "2026-03-28T12:00", "2026-03-28T13:00Z") == WINDOW
    with pytest.raises(WindowError, match="give both, or neither"):
        window_of(plant.plan, "2026-03-28T12:00", "")
    with pytest.raises(WindowError, match="give its START and its END"):
        window_of(plant.plan, "", "")
    changed_manifest(plant, 'time = "$measured_at"', "")
    assert window_of(plant.plan, "", "") is None
    with pytest.raises(WindowError, match="leave out START and END"):
        window_of(plant.plan, "2026-03-28T12:00", "2026-03-28T13:00")


def no_null_time(plant: PlantProject) -> None:
    plant.execute("UPDATE $schema.$fact SET $taken_at = 'infinity' WHERE $taken_at = '2026-03-28'")


def no_computed_null(plant: PlantProject) -> None:
    changed_query(plant, "r.$taken_at AS", "CASE WHEN s.$id IS NOT NULL THEN r.$taken_at END AS")


def two_sites_of_a_code(plant: PlantProject) -> None:
    plant.execute("UPDATE $site SET $city = $code; INSERT INTO $site VALUES ('d1', 'c1')")
    changed_query(plant, "s.$site_code = w.$code", "s.$site_code = w.$city")


def another_type(plant: PlantProject) -> None:
    changed_query(plant, "decimal(18, 6)", "decimal(20, 6)")


def another_column(plant: PlantProject) -> None:
    changed_query(plant, "    w.$city,", "    w.$city AS other_name,")


def no_time_any_more(plant: PlantProject) -> None:
    changed_manifest(plant, 'time = "$measured_at"', 'time = "$sensor_name"')


def not_a_number(plant: PlantProject) -> None:
    plant.execute("UPDATE $schema.$sensor SET $factor = 'NaN' WHERE $serial = 3")


def a_value_that_fails(plant: PlantProject) -> None:
    changed_query(plant, "s.$name AS", "CAST(CAST(s.$name AS int) AS string) AS")


UNSOUND: list[tuple[Callable[[PlantProject], None], type[LockstepError], str]] = [
    (no_null_time, SourceValueError, "1 rows of $schema.$fact have a time that no window holds"),
    (no_computed_null, ResultRefusedError, "rows of the result have no $measured_at"),
    (two_sites_of_a_code, ResultRefusedError, "has 2 rows of the key $reading_id "),
    (another_type, LakehouseError, "$amount is decimal(18,6) and should be decimal(20,6)"),
    (another_column, LakehouseError, "other_name is not there and should be string; $city is"),
    (no_time_any_more, ResultRefusedError, "`time` is $sensor_name, which is string and no time"),
    (not_a_number, SourceValueError, "column $factor: 1 values of type numeric(6,3) cannot be"),
    (a_value_that_fails, PipelineError, "query.sql:5:10"),
]


def require_refused(
    spark: SparkSession, plant: PlantProject, kind: type[LockstepError], message: str
) -> None:
    """In one line."""
    with pytest.raises(kind) as refused:
        run(spark, plant)
    assert plant.plant.sql(message) in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize(("spoil", "kind", "message"), UNSOUND)
def test_what_cannot_be_right_is_refused_and_changes_nothing(
    spark: SparkSession,
    filled: PlantProject,
    spoil: Callable[[PlantProject], None],
    kind: type[LockstepError],
    message: str,
) -> None:
    run(spark, filled)
    table = table_of(filled)
    files = sorted(table.file_uris())
    spoil(filled)
    require_refused(spark, filled, kind, message)
    table.update_incremental()
    assert (table.version(), sorted(table.file_uris())) == (0, files)


def test_collected_rows_that_are_not_sound_are_refused_whatever_is_known_of_the_query(
    spark: SparkSession, filled: PlantProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(spark, filled)
    two_sites_of_a_code(filled)
    monkeypatch.setattr(Query, "is_one_row_a_fact", True)
    with pytest.raises(ResultRefusedError, match="has 2 rows of the key"):
        run(spark, filled)
    assert table_of(filled).version() == 0


@pytest.mark.parametrize(("spoil", "kind", "message"), UNSOUND[1:3] + UNSOUND[-1:])
def test_an_unsound_first_window_is_refused_and_there_is_no_table(
    spark: SparkSession,
    filled: PlantProject,
    spoil: Callable[[PlantProject], None],
    kind: type[LockstepError],
    message: str,
) -> None:
    """By Spark, for no table is there that rows are collected for: two by its check, one as it
    writes."""
    spoil(filled)
    require_refused(spark, filled, kind, message)
    assert not DeltaTable.is_deltatable(filled.settings.table_uri(filled.plan.hourly_table))


def test_a_whole_table_is_never_replaced_for_want_of_a_window(
    spark: SparkSession, filled: PlantProject
) -> None:
    run(spark, filled)
    with pytest.raises(WindowError, match="give its START and its END"):
        run(spark, filled, None)
    assert rows_of(filled) == expected(filled)


def test_a_result_that_delta_cannot_hold_is_refused(
    spark: SparkSession, filled: PlantProject
) -> None:
    changed_query(filled, "    w.$city,", "    w.$city, INTERVAL '1' DAY AS lasted,")
    with pytest.raises(ResultRefusedError, match="Delta cannot hold the result, and nothing"):
        run(spark, filled)
    with pytest.raises(LakehouseError, match="there is no Delta table"):
        table_of(filled)


def test_the_command_prints_rows_table_and_cut(
    filled: PlantProject, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    """In this process, whose Spark session it gets and does not end."""
    monkeypatch.setattr("lockstep.settings.Settings.load", lambda: filled.settings)
    monkeypatch.setattr("lockstep.spark.spark_session", lambda *_: Kept(spark))
    window = (WINDOW.start.isoformat(), WINDOW.end.isoformat())
    shown = CliRunner().invoke(app, ["pipeline", "run", filled.plant.pipeline, *window])
    assert shown.exit_code == 0, shown.exception
    first, table, cut = shown.stdout.splitlines()
    assert first.startswith(f"6 rows of {WINDOW} in ")
    assert table == f"table: {filled.settings.table_uri(filled.plan.hourly_table)}"
    assert re.fullmatch(r"cut: snapshot \d+:\d+:\S*, marker LSN \d+, run \S{36}", cut)
    assert rows_of(filled) == expected(filled)
