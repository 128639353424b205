"""`lockstep source capture`: the changes of an added source in a topic."""

import json
import re
import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from lockstep.accounts import KafkaUser
from lockstep.capture import connector
from lockstep.capture.connectors import connector_of, of_source
from lockstep.capture.reset import remove_capture
from lockstep.kafka_login import client
from lockstep.pipeline import names
from lockstep.pipeline.project import read_project
from lockstep.settings import Settings
from lockstep.sources.capture import capture_facts_at, xid_at
from lockstep.sources.side_snapshots import read_side_snapshots
from lockstep.sources.source_database import capturer_of, reader_of
from psycopg import sql

from tests.connect_rest import ask_connect, wait_until_task_is_configured
from tests.plant.conftest import PASSWORD, NewSource, PlantProject, source
from tests.project import PROJECT_DIR
from tests.secret_scan import leaks

pytestmark = pytest.mark.services

SECONDS_MAX = 60.0


@pytest.fixture
def capturing(new_source: NewSource, change_capture: Settings) -> Iterator[NewSource]:
    """The same; what captures it is removed at the end."""
    yield new_source
    settings = new_source.plant.settings
    for known in read_project(new_source.plant.folder).sources.values():
        remove_capture(settings, of_source(settings, known, ()))


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
    """The rows after changes of one kind, by table.

    A connector that was restarted, as it is to clear its mark, may send a transaction again.
    """
    rows: dict[str, list[dict]] = {}
    seen: list[tuple[int, str, dict]] = []
    for record in records:
        if record.get("op") != op:
            continue
        of, row = record["source"], record["after"]
        if (of["lsn"], of["table"], row) not in seen:
            seen.append((of["lsn"], of["table"], row))
            rows.setdefault(f"{of['schema']}.{of['table']}", []).append(row)
    return rows


def of_connect(settings: Settings, name: str, what: str) -> dict:
    return ask_connect(settings, "GET", f"{name}/{what}").json()


def end_of_registrations(settings: Settings, name: str) -> int:
    wait_until_task_is_configured(settings, name)
    consumer = Consumer({**client(settings, KafkaUser.ADMIN), "group.id": "tests"})
    try:
        partition = TopicPartition("lockstep.connect.config", 0)
        return consumer.get_watermark_offsets(partition, timeout=30)[1]
    finally:
        consumer.close()


def test_from_its_address_to_every_change_in_its_topic(
    capturing: NewSource,
    changes: Callable[[Settings, str], Changes],
    monkeypatch: pytest.MonkeyPatch,
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
    # The connector of the embedded server's own source goes on.
    embedded = Settings.model_copy(settings, update={"project": PROJECT_DIR, "pipeline": ""})
    with monkeypatch.context() as environment:
        environment.setenv("LOCKSTEP_PROJECT", str(PROJECT_DIR))  # where its template is read
        assert connector.trouble(embedded, connector_of(embedded)) is None


def test_a_connector_that_runs_is_left_alone(
    captured_plant: PlantProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCKSTEP_PROJECT", str(captured_plant.folder))
    settings, own = captured_plant.settings, captured_plant.plant.source
    before = end_of_registrations(settings, names.connector(own))
    assert source("capture", own).exception is None
    assert end_of_registrations(settings, names.connector(own)) == before


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
    home = captured_plant.settings.home
    files = [file for file in home.rglob("*") if file.is_file()]
    holding = [file for file in files if PASSWORD.encode() in file.read_bytes()]
    assert holding == [home / "connect" / "secrets.properties"]
    assert leaks(captured_plant.settings) == []


def test_names_of_every_kind_and_partitions_are_captured(
    capturing: NewSource, changes: Callable[[Settings, str], Changes]
) -> None:
    """Their names need quotes in SQL, and escapes in the connector's list of tables."""
    plant, strange = capturing.plant, 'Strange, (a|b)* "Name" é'
    quoted = sql.Identifier(plant.plant.schema, strange).as_string()
    plant.execute(
        f"CREATE TABLE {quoted} (id int PRIMARY KEY);"
        "CREATE TABLE $schema.parted (id int PRIMARY KEY) PARTITION BY RANGE (id);"
        "CREATE TABLE $schema.part PARTITION OF $schema.parted FOR VALUES FROM (0) TO (9);"
        f"INSERT INTO {quoted} VALUES (1); INSERT INTO $schema.parted VALUES (1)"
    )
    added = capturing.add()
    capturing.prepare(added.stdout)
    captured = source("capture", capturing.name)
    assert captured.exception is None, captured.exception
    topic = changes(plant.settings, names.change_topic(capturing.name))
    plant.execute(f"INSERT INTO {quoted} VALUES (2); INSERT INTO $schema.parted VALUES (2)")
    records = topic.until(is_end)
    tables = {f"{plant.plant.schema}.{strange}", f"{plant.plant.schema}.parted"}
    for op, id_ in (("r", 1), ("c", 2)):
        rows = rows_of(records, op)
        assert {table: rows.get(table) for table in tables} == {
            table: [{"id": id_}] for table in tables
        }


def test_a_topic_whose_connector_is_gone_is_not_written_again(
    captured_plant: PlantProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second snapshot in it would be taken for rows that changed; another's is not ours."""
    monkeypatch.setenv("LOCKSTEP_PROJECT", str(captured_plant.folder))
    settings, own = captured_plant.settings, captured_plant.plant
    gone = of_source(settings, captured_plant.source, ())
    connector.stop(settings, gone)
    connector.remove(settings, gone)
    refused = source("capture", own.source)
    assert f"the topic {names.change_topic(own.source)} is there" in str(refused.exception)
    assert source("capture", own.source, "--new-snapshot").exception is None


def test_a_table_published_later_comes_by_a_side_snapshot_once_a_pipeline_reads_it(
    captured_plant: PlantProject,
    changes: Callable[[Settings, str], Changes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rows that it has by then came with no snapshot: they come in a topic of their own."""
    monkeypatch.setenv("LOCKSTEP_PROJECT", str(captured_plant.folder))
    settings, own = captured_plant.settings, captured_plant.plant
    publication = names.publication(own.source)
    captured_plant.execute(
        "CREATE TABLE late (id text PRIMARY KEY); INSERT INTO late VALUES ('a');"
        f"GRANT SELECT ON late TO $capture; ALTER PUBLICATION {publication} ADD TABLE late"
    )
    assert "table public.late is new" in source("add", own.source).stderr
    before = end_of_registrations(settings, names.connector(own.source))
    assert source("capture", own.source).exception is None
    assert end_of_registrations(settings, names.connector(own.source)) == before
    query = captured_plant.folder / "include" / "sql" / own.pipeline / "query.sql"
    text = query.read_text()
    query.write_text(f"{text}LEFT JOIN late ON s.{own.site_code} = late.id\n")
    brought = source("capture", own.source)
    assert brought.exception is None, brought.exception
    assert "a side snapshot reads" in brought.stdout
    side = changes(settings, names.side_topic(own.source, 1))
    captured_plant.execute("INSERT INTO late VALUES ('b'), ('c')")
    assert rows_of(side.until(is_completed), "r") == {"public.late": [{"id": "a"}]}
    (taken,) = read_side_snapshots(settings, own.source).taken
    assert taken.late == ("public.late",)
    assert set(taken.tables) == {"public.late", *map(str, captured_plant.plan.tables)}
    assert facts_of_side_slot(captured_plant) == 0
    assert source("capture", own.source).stdout.splitlines() == [brought.stdout.splitlines()[-1]]


def test_a_table_that_left_the_publication_is_read_again_when_it_is_back(
    captured_plant: PlantProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when no stream ran at that time: its membership has another number."""
    monkeypatch.setenv("LOCKSTEP_PROJECT", str(captured_plant.folder))
    settings, own = captured_plant.settings, captured_plant.plant
    publication = names.publication(own.source)
    captured_plant.execute(
        f"ALTER PUBLICATION {publication} DROP TABLE $site; INSERT INTO $site VALUES ('X', 'x')"
    )
    refused = source("capture", own.source)
    assert f'ADD TABLE "public"."{own.site}"' in str(refused.exception)
    captured_plant.execute(f"ALTER PUBLICATION {publication} ADD TABLE $site")
    again = source("capture", own.source)
    assert again.exception is None, again.exception
    assert f"public.{own.site} was removed from the publication" in again.stdout
    (taken,) = read_side_snapshots(settings, own.source).taken
    assert taken.late == (f"public.{own.site}",)
    assert source("capture", own.source).stdout.splitlines() == [again.stdout.splitlines()[-1]]


def is_completed(record: dict) -> bool:
    return record.get("type") == "COMPLETED"


def facts_of_side_slot(project: PlantProject) -> int:
    """How many slots a side snapshot has left."""
    query = "SELECT count(*) FROM pg_replication_slots WHERE slot_name = %s"
    with project.owner() as owner:
        return owner.execute(query, [names.side_slot(project.source.slot)]).fetchone()[0]


def test_the_streams_reader_sees_the_sources_topic_and_none_of_connects(
    captured_plant: PlantProject,
) -> None:
    """Their names begin as the change topics' do, and in one is the key that workers sign with."""
    admin, reader = (
        AdminClient(client(captured_plant.settings, user)).list_topics(timeout=30).topics
        for user in (KafkaUser.ADMIN, KafkaUser.READER)
    )
    connects = {"lockstep.connect.config", "lockstep.connect.offset", "lockstep.connect.status"}
    assert connects <= admin.keys()
    assert connects.isdisjoint(reader)
    assert names.change_topic(captured_plant.plant.source) in reader
    assert b"session-key" in keys_of(captured_plant.settings, "lockstep.connect.config")


def keys_of(settings: Settings, topic: str) -> set[bytes | None]:
    """The keys of all records of a topic with one partition."""
    consumer = Consumer({**client(settings, KafkaUser.ADMIN), "group.id": "tests"})
    try:
        partition = TopicPartition(topic, 0, 0)
        _, end = consumer.get_watermark_offsets(partition, timeout=30)
        consumer.assign([partition])
        keys, offset, deadline = set(), -1, time.monotonic() + SECONDS_MAX
        while offset < end - 1:
            assert time.monotonic() < deadline
            if (message := consumer.poll(0.2)) is not None and not message.error():
                keys.add(message.key())
                offset = message.offset()
        return keys
    finally:
        consumer.close()
