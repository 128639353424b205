"""The modes of a pipeline over the real Debezium: the same rows, whoever else writes meanwhile.

The function is the one whose SQL `lockstep pipeline prepare` prints, the application's role may
call it and has no right on what the query looks up, and the change log of each mode comes through
the real Debezium.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import psycopg
import pytest
from deltalake import DeltaTable
from lockstep.accounts import Role
from lockstep.batch.run import run_pipeline
from lockstep.capture.connectors import of_source
from lockstep.capture.reset import remove_capture
from lockstep.capture.source_capture import capture_source
from lockstep.cli import app
from lockstep.model.verdict import DifferenceClass
from lockstep.model.window import Window
from lockstep.parity.comparison import OtherModes, compare
from lockstep.parity.readiness import Readiness, readiness
from lockstep.parity.sides import Sides
from lockstep.pipeline.catalog import write_catalog
from lockstep.pipeline.errors import PipelineError
from lockstep.pipeline.modes import Mode
from lockstep.pipeline.names import publication
from lockstep.sources.database_catalog import read_database_catalog
from lockstep.sources.preparation import publication_statement
from psycopg import errors
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from tests.plant.conftest import PASSWORD, PlantProject
from tests.plant.driver import driver_of, until

pytestmark = pytest.mark.services
SEED = 29
TRANSACTIONS = 60
WRITERS = 3
SECONDS_MAX = 120.0
TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
WINDOW = Window(TODAY - timedelta(days=1), TODAY + timedelta(days=2))
MODES = (Mode.TEMPORAL, Mode.OUTBOX, Mode.MESSAGE, Mode.LOOKUP)
RACED = 3
"""The place of is_raced in rows_of."""
QUIET = [f"00000000-0000-0000-0009-{number:012}" for number in range(5)]
APPLICATION = "plant_application"
VIEW = """
CREATE VIEW $schema.enriched AS
SELECT r.$id AS $reading_id, r.$taken_at AS $measured_at, s.$name AS $sensor_name, w.$city,
    (r.$value * s.$factor)::numeric(18, 6) AS $amount
FROM $schema.$fact AS r
LEFT JOIN $schema.$sensor AS s ON r.$sensor_id = s.$id
LEFT JOIN $site AS w ON s.$site_code = w.$code;
GRANT SELECT ON $schema.enriched TO $reader;
"""
FOREIGN_KEYS = """
ALTER TABLE $schema.$fact ADD FOREIGN KEY ($sensor_id) REFERENCES $schema.$sensor;
ALTER TABLE $schema.$sensor ADD FOREIGN KEY ($site_code) REFERENCES $site;
"""
AFTERWARDS = ["00000000-0000-0000-0008-000000000000"]
SENSORS = [f"00000000-0000-0000-0000-{number:012}" for number in range(3)]
CODES = ["A", "B", "C"]
RIGHTS = f"""
GRANT USAGE ON SCHEMA $schema TO {APPLICATION};
GRANT SELECT, INSERT, UPDATE, DELETE ON $schema.$fact TO {APPLICATION};
"""


def declared(plant: PlantProject, *modes: Mode) -> None:
    """The manifest with these modes, a view and an outbox."""
    file = plant.folder / "include" / "sql" / plant.plant.pipeline / "pipeline.toml"
    text, _, _ = file.read_text().partition("modes = ")
    listed = ", ".join(f'"{mode}"' for mode in modes)
    more = plant.plant.sql('view = "$schema.enriched"\noutbox = "$schema.outbox"\n')
    file.write_text(f"{text}{more}modes = [{listed}]\n")


def prepared(plant: PlantProject) -> str:
    """What `lockstep pipeline prepare` prints."""
    environment = {"LOCKSTEP_PROJECT": str(plant.folder)}
    command = ["pipeline", "prepare", plant.plant.pipeline]
    result = CliRunner().invoke(app, command, env=environment)
    if result.exception is not None:
        raise result.exception
    return result.stdout


@pytest.fixture
def readings(plant: PlantProject) -> PlantProject:
    """The plant with foreign keys and a view, and the function and outbox that `prepare` prints."""
    declared(plant, *MODES)
    plant.execute(VIEW + FOREIGN_KEYS)
    with plant.owner() as owner:
        tables = [table.name for table in plant.source.catalog.tables]
        owner.execute(publication_statement(publication(plant.source.name), tables))
        owner.execute(prepared(plant))
        names = plant.plant
        catalog = read_database_catalog(owner, names.source, ("public", names.schema))
    folder = plant.folder / "include" / "sources" / names.source
    (folder / "catalog.lock").write_text(write_catalog(catalog))
    return plant


@pytest.fixture
def application(readings: PlantProject) -> Iterator[PlantProject]:
    """The role of the application is there: with rights on the fact and the function alone."""
    function = f"$schema.lockstep_publish__{readings.plant.pipeline}"
    with psycopg.connect(
        **readings.settings.connection(Role.ADMIN, "postgres"), autocommit=True
    ) as admin:
        admin.execute(f"CREATE ROLE {APPLICATION} LOGIN PASSWORD '{PASSWORD}'")
        readings.execute(f"{RIGHTS} GRANT EXECUTE ON FUNCTION {function} TO {APPLICATION}")
        yield readings
        readings.execute(f"DROP OWNED BY {APPLICATION}")
        admin.execute(f"DROP ROLE {APPLICATION}")


@contextmanager
def signed_in(project: PlantProject) -> Iterator[psycopg.Connection]:
    """A connection of the application."""
    parameters = project.settings.connection(Role.ADMIN, project.plant.database)
    parameters |= {"user": APPLICATION, "password": PASSWORD}
    with psycopg.connect(**parameters) as connection:
        yield connection


class Application:
    """Threads that change readings and publish them, while others change what these refer to."""

    def __init__(self, project: PlantProject) -> None:
        self._project, self._failures = project, []
        self.count = 0
        self._at_count = threading.Lock()

    def run(self) -> None:
        """All transactions; each writes one version of a reading, or more."""
        ended = threading.Event()
        others = [threading.Thread(target=self._change, args=(n, ended)) for n in range(2)]
        writers = [threading.Thread(target=self._write, args=(n,)) for n in range(WRITERS)]
        for thread in (*others, *writers):
            thread.start()
        for thread in writers:
            thread.join(SECONDS_MAX)
        ended.set()
        for thread in others:
            thread.join(SECONDS_MAX)
        assert self._failures == []

    def _change(self, number: int, ended: threading.Event) -> None:
        """Names, factors and sites, all the time."""
        rng = Random(SEED + 100 + number)
        try:
            with self._project.owner() as owner:
                while not ended.wait(0.003):
                    self._change_one(owner, rng)
        except Exception as error:  # the test's thread shows it
            self._failures.append(error)

    def _change_one(self, owner: psycopg.Connection, rng: Random) -> None:
        sensor, code, value = rng.choice(SENSORS), rng.choice(CODES), rng.randint(1, 999)
        if rng.random() < 0.5:
            text = "UPDATE $schema.$sensor SET $name = %s, $site_code = %s WHERE $id = %s"
            values = (f"n{value}", code, sensor)
        else:
            text, values = "UPDATE $site SET $city = %s WHERE $code = %s", (f"c{value}", code)
        owner.execute(self._project.plant.sql(text), values)

    def _write(self, number: int) -> None:
        rng = Random(SEED + number)
        try:
            with signed_in(self._project) as connection:
                for _ in range(TRANSACTIONS // WRITERS):
                    self._transaction(connection, rng, number)
        except Exception as error:  # the test's thread shows it
            self._failures.append(error)

    def _transaction(self, connection: psycopg.Connection, rng: Random, number: int) -> None:
        keys = rng.sample(range(6), rng.randint(1, 2))
        try:
            for key in sorted(keys):
                self._reading(connection, rng, f"00000000-0000-0000-{number:04}-{key:012}")
            connection.execute("SELECT pg_sleep(%s)", [rng.random() * 0.01])
            connection.commit()
        except errors.DeadlockDetected:
            connection.rollback()
            return
        with self._at_count:
            self.count += len(keys)

    def _reading(self, connection: psycopg.Connection, rng: Random, key: str) -> None:
        sql = self._project.plant.sql
        is_there = connection.execute(
            sql("SELECT FROM $schema.$fact WHERE $id = %s"), [key]
        ).fetchone()
        if is_there is None:
            values = (key, rng.choice(SENSORS), rng.randint(-9, 9))
            text, op = "INSERT INTO $schema.$fact VALUES (%s, %s, %s, now())", "c"
        elif rng.random() < 0.3:
            text, values, op = "DELETE FROM $schema.$fact WHERE $id = %s", (key,), "d"
        else:
            text = "UPDATE $schema.$fact SET $sensor_id = %s, $value = NULL WHERE $id = %s"
            values, op = (rng.choice(SENSORS), key), "u"
        connection.execute(sql(text), values)
        publish(connection, self._project, key, op)


def publish(connection: psycopg.Connection, project: PlantProject, key: str, op: str) -> None:
    function = project.plant.sql(f"$schema.lockstep_publish__{project.plant.pipeline}")
    connection.execute(f"SELECT {function}(%s, %s)", [key, op])


def rows_of(project: PlantProject, mode: Mode) -> list[tuple] | None:
    """Transaction, op, is_raced and result of each row of the mode's change log.

    None before it is there.
    """
    uri = project.settings.table_uri(project.plan.change_log(mode))
    if not DeltaTable.is_deltatable(uri):
        return None
    columns = ["tx_id", "commit_lsn", "op", "is_raced", *project.plan.result.columns]
    rows = DeltaTable(uri).to_pyarrow_table(columns=columns).to_pylist()
    return sorted((tuple(row.values()) for row in rows), key=str)


def publish_quietly(project: PlantProject, keys: list[str]) -> None:
    """A transaction after which nothing changes."""
    with signed_in(project) as connection:
        for key in keys:
            text = project.plant.sql("INSERT INTO $schema.$fact VALUES (%s, %s, 7, now())")
            connection.execute(text, [key, SENSORS[0]])
            publish(connection, project, key, "c")


@contextmanager
def capturing(project: PlantProject) -> Iterator[None]:
    """The source's connector, for the block."""
    tables = [table.name for table in project.source.catalog.tables]
    try:
        capture_source(project.settings, project.project, project.source)
        yield
    finally:
        remove_capture(project.settings, of_source(project.settings, project.source, tables))


def require_same_rows(project: PlantProject, count: int) -> None:
    """Those of a look-up that are not marked: the others may be of after their commit."""
    temporal, outbox, message, looked_up = (rows_of(project, mode) for mode in MODES)
    assert len(temporal) == count > TRANSACTIONS / 2
    assert outbox == temporal
    assert message == temporal
    assert {row[:RACED] for row in looked_up} == {row[:RACED] for row in temporal}
    sure = {row for row in looked_up if not row[RACED]}
    assert sure <= {*temporal}
    assert {row[RACED + 1] for row in sure} >= {*QUIET}
    assert len(sure) < count, "nothing raced, so nothing is tested"


def test_the_modes_agree_and_what_was_not_published_or_cannot_be_read_is_named(
    spark: SparkSession, application: PlantProject, change_capture: object, tmp_path: Path
) -> None:
    print(f"seed {SEED}")  # noqa: T201 - shown when a test fails
    project = application
    project.execute(
        "".join(f"INSERT INTO $site VALUES ('{code}', 'city');" for code in CODES)
        + "".join(
            f"INSERT INTO $schema.$sensor VALUES ('{sensor}', {number}, 'name', 1.5, 'A');"
            for number, sensor in enumerate(SENSORS)
        )
    )
    command = ["pipeline", "stream", project.plant.pipeline, *MODES]
    with capturing(project), driver_of(project, tmp_path, command) as driver:
        until(lambda: all(rows_of(project, mode) == [] for mode in MODES), driver)
        written = Application(project)
        written.run()
        publish_quietly(project, QUIET)
        count = written.count + len(QUIET)
        until(lambda: all(len(rows_of(project, mode)) >= count for mode in MODES), driver)
        require_same_rows(project, count)
        project.execute("UPDATE $schema.$sensor SET $name = 'renamed'")
        project.execute("UPDATE $schema.$fact SET $value = 8 WHERE $id = %s", (QUIET[0],))
        pipeline = project.project.pipeline(project.plant.pipeline)
        run_pipeline(spark, project.settings, pipeline, WINDOW)
        until(lambda: all(ready(project, mode).verdict is None for mode in MODES), driver)
        project.execute("INSERT INTO $schema.outbox (payload) VALUES ('{}')")
        until(lambda: "outbox has ended" in driver.text(), driver)
        publish_quietly(project, AFTERWARDS)
        others = [mode for mode in MODES if mode is not Mode.OUTBOX]
        until(lambda: all(AFTERWARDS[0] in str(rows_of(project, m)) for m in others), driver)
        assert driver.stop() == 2, driver.text()[-3000:]
    last = driver.text().splitlines()[-1]
    assert last.startswith("error: ")
    assert project.plant.sql("table $schema.outbox: ") in last
    drift, race = DifferenceClass.DIMENSION_DRIFT, DifferenceClass.LOOKUP_RACE
    later = DifferenceClass.CHANGED_AFTER_CUT
    for mode in MODES:
        sides = Sides(project.settings, project.plan, WINDOW, mode, ready(project, mode))
        found = compare(spark, sides, OtherModes())
        assert found.counts.get(drift, 0) + found.counts.get(race, 0) > 0, mode
        of_design = {drift, later, race} if mode is Mode.LOOKUP else {drift, later}
        more = {kind: number for kind, number in found.counts.items() if kind not in of_design}
        is_published = mode in (Mode.OUTBOX, Mode.MESSAGE)
        assert more == ({DifferenceClass.VALUE_MISMATCH: 1} if is_published else {}), mode
        wrong = [one.key for one in found.differing if one.kind not in of_design]
        assert wrong == ([(QUIET[0],)] if is_published else []), mode


def ready(project: PlantProject, mode: Mode) -> Readiness:
    return readiness(project.settings, project.plan, WINDOW, mode)


@pytest.mark.parametrize(
    ("level", "op", "refusal"),
    [
        ("REPEATABLE READ", "c", "needs READ COMMITTED, not REPEATABLE READ"),
        ("READ COMMITTED", "d", "has a row of this key, so op cannot be d"),
        ("READ COMMITTED", "x", "op must be c, u or d, not x"),
    ],
)
def test_what_cannot_be_published_ends_the_transaction(
    application: PlantProject, level: str, op: str, refusal: str
) -> None:
    sql = application.plant.sql
    application.execute(f"INSERT INTO $schema.$sensor VALUES ('{SENSORS[0]}', 1, 'n', 1, NULL)")
    with signed_in(application) as connection:
        connection.execute(f"SET TRANSACTION ISOLATION LEVEL {level}")
        connection.execute(
            sql("INSERT INTO $schema.$fact VALUES (%s, %s, 1, now())"), [SENSORS[1], SENSORS[0]]
        )
        with pytest.raises(errors.RaiseException, match=refusal):
            publish(connection, application, SENSORS[1], op)
        connection.rollback()
        with pytest.raises(errors.RaiseException, match="has no row of this key, so op cannot"):
            publish(connection, application, SENSORS[1], "u")


def test_the_application_needs_no_right_on_what_is_looked_up(application: PlantProject) -> None:
    with signed_in(application) as connection:
        with pytest.raises(errors.InsufficientPrivilege):
            connection.execute(application.plant.sql("SELECT * FROM $schema.$sensor"))
        connection.rollback()
        with pytest.raises(errors.InsufficientPrivilege):
            connection.execute(application.plant.sql("SELECT * FROM $schema.outbox"))


@pytest.mark.parametrize(
    ("keys", "missing"),
    [
        ("", "$sensor_id refers to $schema.$sensor.$id without"),
        (
            FOREIGN_KEYS.replace("$site;", "$site DEFERRABLE;"),
            "$site_code refers to public.$site.$code without",
        ),
    ],
)
def test_a_look_up_without_a_foreign_key_is_refused(
    plant: PlantProject, keys: str, missing: str
) -> None:
    declared(plant, Mode.MESSAGE)
    plant.execute(VIEW + keys)
    with pytest.raises(PipelineError) as refused:
        prepared(plant)
    assert plant.plant.sql(missing) in str(refused.value)
    assert "add a FOREIGN KEY that is not deferrable" in str(refused.value)


def test_every_pipeline_with_windows_keeps_the_time_of_its_facts(plant: PlantProject) -> None:
    statements = prepared(plant)
    assert "lockstep_publish__" not in statements
    with plant.owner() as owner:
        owner.execute(statements)
    values = f"'{SENSORS[1]}', '{SENSORS[0]}', 1, '2026-01-01Z'"
    plant.execute(f"INSERT INTO $schema.$fact VALUES ({values})")
    with pytest.raises(errors.IntegrityConstraintViolation, match="decides which window") as error:
        plant.execute("UPDATE $schema.$fact SET $taken_at = $taken_at + interval '1 microsecond'")
    assert error.value.diag.message_hint == "Delete the row and insert it with the other time."
    plant.execute("UPDATE $schema.$fact SET $taken_at = $taken_at, $value = 2")
