"""`lockstep source`: from a database that knows nothing of Lockstep to its changes in a topic."""

import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import httpx
import pytest
from confluent_kafka import Consumer, TopicPartition
from lockstep.cli import app
from lockstep.contracts import KafkaUser
from lockstep.errors import LockstepError
from lockstep.kafka_login import client
from lockstep.pipeline import names
from lockstep.pipeline.project import Source, read_project
from lockstep.settings import Settings
from lockstep.sources.capture import capture_facts_at, xid_at
from lockstep.sources.source_database import capturer_of, reader_of
from lockstep.stack import connector
from lockstep.stack.capture_reset import remove_capture
from lockstep.stack.connectors import of_source, pizzeria
from typer.testing import CliRunner, Result

from tests.plant.conftest import PASSWORD, PlantProject
from tests.secret_scan import leaks

pytestmark = pytest.mark.services

SECONDS_MAX = 60.0
CAPTURE = "plant_capture"


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
        if owner.execute("SELECT FROM pg_roles WHERE rolname = %s", [CAPTURE]).fetchone():
            owner.execute(f"DROP OWNED BY {CAPTURE}; DROP ROLE {CAPTURE}")


@pytest.fixture
def capturing(new_source: NewSource, change_capture: Settings) -> Iterator[NewSource]:
    """The same; what captures it is removed at the end."""
    yield new_source
    settings = new_source.plant.settings
    one = of_source(settings, new_source.read, ())
    if connector.captured_patterns(settings, one) is not None:
        remove_capture(settings, one)


class Changes:
    """The records of a source's topic as the streams' reader reads them, from the first on."""

    def __init__(self, settings: Settings, topic: str) -> None:
        login = client(settings, KafkaUser.READER)
        self._consumer = Consumer({**login, "group.id": "lockstep", "enable.auto.commit": False})
        self._consumer.assign([TopicPartition(topic, 0, 0)])
        self.records: list[dict] = []

    def until(self, is_last: Callable[[dict], bool]) -> list[dict]:
        """Those that came since, up to the first that `is_last`."""
        found: list[dict] = []
        deadline = time.monotonic() + SECONDS_MAX
        while not found or not is_last(found[-1]):
            assert time.monotonic() < deadline, f"last records: {found[-3:]}"
            message = self._consumer.poll(0.2)
            assert message is None or not message.error(), message.error()
            if message is not None and message.value() is not None:
                found.append(json.loads(message.value()))
        return found

    def close(self) -> None:
        self._consumer.close()


@pytest.fixture
def changes() -> Iterator[Callable[[Settings, str], Changes]]:
    opened: list[Changes] = []

    def read(settings: Settings, topic: str) -> Changes:
        opened.append(Changes(settings, topic))
        return opened[-1]

    yield read
    for one in opened:
        one.close()


def is_end(record: dict) -> bool:
    return record.get("status") == "END" and record["event_count"] > 1


def rows_of(records: list[dict], op: str) -> dict[str, list[dict]]:
    """The rows after changes of one kind, by table."""
    rows: dict[str, list[dict]] = {}
    for record in records:
        if record.get("op") == op:
            table = f"{record['source']['schema']}.{record['source']['table']}"
            rows.setdefault(table, []).append(record["after"])
    return rows


def of_connect(settings: Settings, name: str, what: str) -> dict:
    url = f"{settings.connect_url}/connectors/{name}/{what}"
    return httpx.get(url, auth=settings.connect_auth, timeout=30).json()


def end_of_registrations(settings: Settings) -> int:
    consumer = Consumer({**client(settings, KafkaUser.ADMIN), "group.id": "tests"})
    try:
        partition = TopicPartition("lockstep.connect.config", 0)
        return consumer.get_watermark_offsets(partition, timeout=30)[1]
    finally:
        consumer.close()


def test_from_its_address_to_every_change_in_its_topic(
    capturing: NewSource, changes: Callable[[Settings, str], Changes]
) -> None:
    plant, settings = capturing.plant, capturing.plant.settings
    plant.execute("INSERT INTO $site VALUES ('n', 'North')")
    plant.execute("INSERT INTO $schema.$sensor VALUES (gen_random_uuid(), 1, 'old', 2.5, 'n')")
    plant.execute(
        "INSERT INTO $schema.$fact SELECT gen_random_uuid(), $id, 1.5, now() FROM $schema.$sensor"
    )
    added = capturing.add()
    assert added.exception is None, added.stderr
    capturing.prepare(added.stdout)
    assert capturing.add().stdout == ""
    captured = source("capture", capturing.name)
    assert captured.exception is None, captured.stderr
    names_ = plant.plant
    site, sensor, fact = (
        f"public.{names_.site}",
        f"{names_.schema}.{names_.sensor}",
        f"{names_.schema}.{names_.fact}",
    )
    topic = changes(settings, names.change_topic(capturing.name))
    plant.execute(
        "INSERT INTO $site VALUES ('s', 'South');"
        "INSERT INTO $schema.$sensor VALUES (gen_random_uuid(), 2, 'new', 0.5, 's')"
    )
    records = topic.until(is_end)
    snapshot, inserted = rows_of(records, "r"), rows_of(records, "c")
    assert {table: len(rows) for table, rows in snapshot.items()} == {site: 1, sensor: 1, fact: 1}
    assert snapshot[fact][0][names_.value] == "1.500"
    assert inserted[site] == [{names_.code: "s", names_.city: "South"}]
    assert [row[names_.name] for row in inserted[sensor]] == ["new"]
    assert len({r["transaction"]["id"].split(":")[0] for r in records if r.get("op") == "c"}) == 1
    assert connector.trouble(settings, pizzeria(settings)) is None


def test_a_connector_that_runs_is_left_alone(
    captured_plant: PlantProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCKSTEP_PROJECT", str(captured_plant.folder))
    before = end_of_registrations(captured_plant.settings)
    assert source("capture", captured_plant.plant.source).exception is None
    assert end_of_registrations(captured_plant.settings) == before


def test_what_capture_lacks_is_named_with_the_sql_that_gives_it(
    captured_plant: PlantProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connector runs on meanwhile; the SQL in the message repairs it."""
    monkeypatch.setenv("LOCKSTEP_PROJECT", str(captured_plant.folder))
    own, role = captured_plant.plant, captured_plant.plant.capture
    publication = names.publication(own.source)
    taken = [
        (f"ALTER ROLE {role} NOREPLICATION", r"may not replicate: (ALTER ROLE .*;)"),
        (f"REVOKE SELECT ON {own.site} FROM {role}", r"cannot read public\.\w+: (GRANT .*;)"),
        (
            f"ALTER PUBLICATION {publication} DROP TABLE {own.schema}.{own.fact}",
            rf"lacks {own.schema}\.{own.fact}: (ALTER PUBLICATION .*;)",
        ),
        (f"DROP PUBLICATION {publication}", r"no publication .*: run (CREATE PUBLICATION .*;)"),
    ]
    for statement, message in taken:
        with captured_plant.owner() as owner:
            owner.execute(statement)
            refused = source("capture", own.source)
            found = re.search(message, str(refused.exception))
            assert found, refused.exception
            owner.execute(found[1])
            assert source("capture", own.source).exception is None
    assert (
        connector.trouble(
            captured_plant.settings, of_source(captured_plant.settings, captured_plant.source, ())
        )
        is None
    )


def test_the_sources_slot_is_the_marked_one_and_no_other_will_be(
    captured_plant: PlantProject,
) -> None:
    settings, own = captured_plant.settings, captured_plant.source
    slot = names.slot(captured_plant.plant.database, own.name)
    facts = capture_facts_at(reader_of(settings, own), slot)
    assert (facts.database_name, facts.has_slot) == (captured_plant.plant.database, True)
    assert facts.has_mark
    assert of_connect(settings, names.connector(own.name), "config")[connector.MARK] == "false"
    assert xid_at(capturer_of(settings, own)) <= xid_at(reader_of(settings, own))


def test_no_password_of_a_source_is_in_rest_answers_topics_or_logs(
    captured_plant: PlantProject,
) -> None:
    config = of_connect(
        captured_plant.settings, names.connector(captured_plant.plant.source), "config"
    )
    assert config["database.password"].startswith("${file:")
    assert PASSWORD not in json.dumps(config)
    assert leaks(captured_plant.settings) == []
