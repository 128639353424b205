"""What the services are configured with: loopback, our decisions, and no password in the open."""

import json
import re
import stat
import sys
from pathlib import Path

import pytest
from lockstep.accounts import KafkaUser, Role
from lockstep.airflow_admin.environment import (
    airflow_environment,
    settings_environment,
    write_sign_in_password,
)
from lockstep.capture import connector, connectors
from lockstep.capture.connectors import connector_of
from lockstep.devstack import connect, kafka, postgres
from lockstep.devstack.secrets import with_secrets
from lockstep.errors import ConfigurationError
from lockstep.jvm.java import java_command, properties
from lockstep.kafka_login import login_module
from lockstep.settings import Settings
from pizzeria import names as pizzeria
from pydantic import SecretStr

from tests.project import PROJECT_DIR

HARD_PASSWORD = "p@ss/w:rd%?# ü"


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The defaults, with passwords that need quoting wherever it can be forgotten."""
    for field in Settings.model_fields:
        monkeypatch.delenv(f"LOCKSTEP_{field.upper()}", raising=False)
    complete = with_secrets(Settings(home=tmp_path / "home"))
    hard = {
        name: SecretStr(HARD_PASSWORD)
        for name in Settings.model_fields
        if name.endswith("_password")
    }
    return complete.model_copy(update=hard)


def test_postgres_decodes_logically_bounds_its_log_and_listens_on_loopback(
    settings: Settings,
) -> None:
    lines = postgres._server_configuration(settings).splitlines()
    assert "wal_level = 'logical'" in lines
    assert "track_commit_timestamp = 'on'" in lines
    assert "listen_addresses = '127.0.0.1'" in lines
    assert "max_slot_wal_keep_size = '4096MB'" in lines


def test_jvms_have_their_own_options_and_those_that_are_set(settings: Settings) -> None:
    plain = java_command(settings, "kafka", "kafka.Kafka")
    given = settings.model_copy(update={"kafka_jvm_options": "-Xss1m -XX:+UseZGC"})
    command = java_command(given, "kafka", "kafka.Kafka")
    assert [one for one in command if one not in plain] == ["-Xss1m", "-XX:+UseZGC"]
    assert command.index("-Xss1m") < command.index("-cp")


def test_kafka_is_one_node_that_makes_no_topic_by_itself(settings: Settings) -> None:
    values = kafka.server_properties(settings)
    assert values["listeners"] == "BROKER://127.0.0.1:19092,CONTROLLER://127.0.0.1:19093"
    assert values["auto.create.topics.enable"] == "false"
    assert all(value == 1 for name, value in values.items() if name.endswith("replication.factor"))


def test_both_ports_of_kafka_ask_for_a_password_that_only_its_owner_reads(
    settings: Settings,
) -> None:
    configuration = kafka.write_configuration(settings)
    values = kafka.server_properties(settings)
    assert values["listener.security.protocol.map"] == (
        "BROKER:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT"
    )
    assert values["super.users"] == f"User:{KafkaUser.ADMIN}"
    assert "allow.everyone.if.no.acl.found" not in values
    assert HARD_PASSWORD not in str(values)
    users = configuration.with_name("jaas.conf")
    assert stat.S_IMODE(users.stat().st_mode) == 0o600
    assert users.read_text(encoding="utf-8").count(f'"{HARD_PASSWORD}"') == 1 + len(KafkaUser)


@pytest.mark.parametrize(
    ("password", "quoted"), [("plain", '"plain"'), ('a"b\\c;', '"a\\"b\\\\c;"')]
)
def test_passwords_of_java_logins_are_quoted(password: str, quoted: str) -> None:
    assert login_module("Module", {"password": password}) == f"Module required password={quoted};"


def test_connect_delivers_at_least_once_and_reads_passwords_from_one_file(
    settings: Settings,
) -> None:
    values = connect.worker_properties(settings)
    assert "exactly.once.source.support" not in values
    assert values["scheduled.rebalance.max.delay.ms"] == 0
    assert values["listeners"] == "http://127.0.0.1:18083"
    allowed = values["config.providers.file.param.allowed.paths"]
    assert allowed == settings.home / "connect" / "secrets.properties"
    assert HARD_PASSWORD not in str(values)


def test_the_connector_is_as_configured(settings: Settings) -> None:
    values = connector_of(settings).configuration()
    secrets = settings.home / "connect" / "secrets.properties"
    assert values["database.password"] == f"${{file:{secrets}:cdc.password}}"
    assert values["slot.name"] == pizzeria.REPLICATION_SLOT
    assert values["publication.name"] == pizzeria.PUBLICATION
    assert values["transforms.route.replacement"] == pizzeria.CHANGE_TOPIC
    captured = [re.compile(pattern) for pattern in values[connector.FIRST_TABLES].split(",")]
    assert "table.include.list" not in values, "a table added to the publication is captured"
    for table in pizzeria.CAPTURED_TABLES:
        assert any(pattern.fullmatch(f"public.{table}") for pattern in captured)
    assert not any("${lockstep" in value for value in values.values())


def test_everything_but_the_heartbeat_topic_is_routed(settings: Settings) -> None:
    values = connector_of(settings).configuration()
    route = re.compile(values["transforms.route.regex"])
    prefix = pizzeria.TOPIC_PREFIX
    for topic in ("public.orders", "message", "transaction", "notification"):
        assert route.fullmatch(f"{prefix}.{topic}")
    assert route.fullmatch(values["notification.sink.topic.name"])
    assert not route.fullmatch(f"__debezium-heartbeat.{prefix}")


def test_an_unknown_placeholder_is_named(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    template = tmp_path / "pizzeria.json"
    template.write_text(json.dumps({"slot.name": "${lockstep:slott}"}))
    monkeypatch.setattr(connectors, "TEMPLATES", tmp_path)
    with pytest.raises(ConfigurationError, match=r"lockstep:slott.*there are: .*slot"):
        connector_of(settings).configuration()


def test_properties_are_escaped() -> None:
    assert properties({"a": " x\\y\nz", "b": "ü😀"}) == (
        "a=\\ x\\\\y\\nz\nb=\\u00fc\\ud83d\\ude00\n"
    )


def test_airflow_is_configured_by_its_environment_alone(settings: Settings) -> None:
    environment = airflow_environment(settings)
    quoted = "p%40ss%2Fw%3Ard%25%3F%23%20%C3%BC"
    assert environment["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] == (
        f"postgresql+psycopg2://{Role.AIRFLOW}:{quoted}@127.0.0.1:15432/airflow"
    )
    assert environment["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC"].startswith("postgresql+asyncpg")
    assert environment["AIRFLOW__CORE__DAGS_FOLDER"] == str(PROJECT_DIR / "dags")
    assert environment["AIRFLOW__API__HOST"] == "127.0.0.1"
    assert environment["PYSPARK_PYTHON"] == sys.executable
    assert environment["PATH"].split(":")[0] == str(Path(sys.executable).parent)
    assert json.loads(environment["AIRFLOW_CONN_SPARK_DEFAULT"])["host"] == "local[2]"


def test_airflows_keys_survive_a_restart_and_are_private(settings: Settings) -> None:
    first, second = airflow_environment(settings), airflow_environment(settings)
    assert first == second
    keys = settings.home / "airflow" / "keys.json"
    assert stat.S_IMODE(keys.stat().st_mode) == 0o600
    assert first["AIRFLOW__CORE__FERNET_KEY"] in keys.read_text()


def test_the_sign_in_password_is_in_a_private_file(settings: Settings) -> None:
    write_sign_in_password(settings)
    path = Path(airflow_environment(settings)["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(path.read_text()) == {"admin": HARD_PASSWORD}


def test_passwords_from_the_environment_do_not_reach_tasks(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCKSTEP_ADMIN_PASSWORD", "very-secret")
    monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", "/somewhere/else")
    assert "very-secret" not in airflow_environment(settings).values()
    assert airflow_environment(settings)["AIRFLOW__CORE__DAGS_FOLDER"] == str(PROJECT_DIR / "dags")


def test_settings_can_be_read_again_from_their_environment(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in settings_environment(settings).items():
        monkeypatch.setenv(name, value)
    again = Settings.load()
    for name in Settings.model_fields:
        if not name.endswith("_password"):
            assert getattr(again, name) == getattr(settings, name)
