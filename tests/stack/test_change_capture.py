"""From a change in PostgreSQL to the change topic, through crashes of everything on the way."""

import base64
import time
from collections.abc import Callable

import psycopg
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec
from lockstep.accounts import KafkaUser, Role
from lockstep.capture import connector
from lockstep.capture.connectors import connector_of
from lockstep.devstack import control
from lockstep.devstack.service import State
from lockstep.errors import ServiceError
from lockstep.kafka_login import client
from lockstep.model.log import HEARTBEAT_MESSAGE_PREFIX
from lockstep.settings import Settings
from pizzeria import names as pizzeria
from pizzeria.names import Login

from tests.connect_rest import ask_connect, wait_until_task_is_configured
from tests.hourly_table import empty_pizzeria
from tests.secret_scan import leaks

pytestmark = pytest.mark.services

FRESH_ID = 1_000_000
"""Beyond the ids of any test before: the topic keeps what those did."""


@pytest.fixture(autouse=True, scope="module")
def _ids_never_seen_before(change_capture: Settings) -> None:
    """Whatever other tests left in the shared database, the orders here have ids of their own."""
    empty_pizzeria(change_capture)
    with psycopg.connect(**change_capture.connection(Login.OWNER)) as owner:
        for table in pizzeria.CAPTURED_TABLES:
            owner.execute("SELECT setval(pg_get_serial_sequence(%s, 'id'), %s)", [table, FRESH_ID])


def place_order(settings: Settings, client: str) -> int:
    """One transaction: client, table, pizza, assignment, the order, its outbox row and message."""
    with psycopg.connect(**settings.connection(Login.SHOP)) as shop:
        client_id = shop.execute(
            "INSERT INTO clients (name) VALUES (%s) RETURNING id", [client]
        ).fetchone()[0]
        table_id = shop.execute("INSERT INTO tables (name) VALUES ('T') RETURNING id").fetchone()[0]
        pizza_id = shop.execute(
            "INSERT INTO pizzas (name, price) VALUES ('Margherita', 8.50) RETURNING id"
        ).fetchone()[0]
        assignment_id = shop.execute(
            "INSERT INTO table_assignment (client_id, table_id, in_time) "
            "VALUES (%s, %s, now()) RETURNING id",
            [client_id, table_id],
        ).fetchone()[0]
        order_id = shop.execute(
            "INSERT INTO orders (table_assignment_id, order_time, pizzas) "
            "VALUES (%s, now(), %s) RETURNING id",
            [assignment_id, [pizza_id, pizza_id]],
        ).fetchone()[0]
        shop.execute("SELECT publish_order(%s, 'c')", [order_id])
    return order_id


def is_message_of(order_id: int) -> Callable[[dict], bool]:
    """The order's own logical message."""

    def matches(record: dict) -> bool:
        message = record.get("message") or {}
        content = base64.b64decode(message.get("content") or "").decode()
        return f'"order_id" : {order_id},' in content

    return matches


def is_end_of(transaction: str) -> Callable[[dict], bool]:
    return lambda r: r.get("status") == "END" and r["id"].split(":")[0] == transaction


def states(settings: Settings) -> dict[str, State]:
    return {one.service: one.state for one in control.statuses(settings)}


def end_offset(settings: Settings, topic: str = pizzeria.CHANGE_TOPIC) -> int:
    admin = AdminClient(client(settings, KafkaUser.ADMIN))
    partition = TopicPartition(topic, 0)
    answer = admin.list_offsets({partition: OffsetSpec.latest()})[partition]
    return answer.result(timeout=30).offset


def test_a_transaction_arrives_whole_with_outbox_message_and_end(
    change_capture: Settings, change_topic
) -> None:
    order_id = place_order(change_capture, "Anna")
    records = change_topic.until(is_message_of(order_id))
    message = records[-1]
    transaction = message["transaction"]["id"].split(":")[0]
    end = change_topic.until(is_end_of(transaction))[-1]
    assert end["event_count"] == 7
    changes = [
        r for r in records if (r.get("transaction") or {}).get("id", "").startswith(transaction)
    ]
    tables = [r["source"]["table"] for r in changes]
    assert tables == [
        "clients",
        "tables",
        "pizzas",
        "table_assignment",
        "orders",
        "orders_outbox",
        "",
    ]
    assert [r["transaction"]["total_order"] for r in changes] == [1, 2, 3, 4, 5, 6, 7]
    assert changes[2]["after"]["price"] == "8.50"
    assert message["message"]["prefix"] == pizzeria.ORDERS_MESSAGE_PREFIX


def test_a_truncate_arrives(change_capture: Settings, change_topic) -> None:
    with psycopg.connect(**change_capture.connection(Login.SHOP)) as shop:
        shop.execute("TRUNCATE orders")
    assert change_topic.until(lambda r: r.get("op") == "t")[-1]["source"]["table"] == "orders"


def test_the_change_topic_is_one_partition_kept_without_limit(change_capture: Settings) -> None:
    admin = AdminClient(client(change_capture, KafkaUser.ADMIN))
    topics = admin.list_topics(timeout=10).topics
    assert len(topics[pizzeria.CHANGE_TOPIC].partitions) == 1
    assert not [name for name in topics if name.startswith(f"{pizzeria.TOPIC_PREFIX}.")]
    resource = ConfigResource(ConfigResource.Type.TOPIC, pizzeria.CHANGE_TOPIC)
    values = admin.describe_configs([resource])[resource].result(timeout=10)
    assert values["retention.ms"].value == "-1"
    assert values["retention.bytes"].value == "-1"
    assert values["cleanup.policy"].value == "delete"


def test_the_slot_moves_while_only_other_databases_write(
    change_capture: Settings, change_topic
) -> None:
    with psycopg.connect(**change_capture.connection(Role.AIRFLOW, "airflow")) as other:
        other.execute("CREATE TABLE IF NOT EXISTS noise AS SELECT generate_series(1, 50000)")
    with psycopg.connect(**change_capture.connection(Role.ADMIN)) as admin:
        admin.autocommit = True
        written = admin.execute("SELECT pg_current_wal_lsn()").fetchone()[0]
        heartbeat = HEARTBEAT_MESSAGE_PREFIX
        query = "SELECT confirmed_flush_lsn >= %s::pg_lsn FROM pg_replication_slots"
        for _ in range(6):  # of its heartbeats; the first may have been under way
            change_topic.until(lambda r: (r.get("message") or {}).get("prefix") == heartbeat)
            if admin.execute(query, [written]).fetchone()[0]:
                return
    pytest.fail(f"the slot has not reached {written}")


def test_a_start_leaves_no_other_slot_to_be_marked(change_capture: Settings) -> None:
    found = ask_connect(change_capture, "GET", f"{pizzeria.CONNECTOR}/config").json()
    assert found[connector.MARK] == "false"


def test_the_second_up_does_nothing_to_the_connector(change_capture: Settings) -> None:
    registrations = "lockstep.connect.config"
    wait_until_task_is_configured(change_capture, pizzeria.CONNECTOR)
    before = end_offset(change_capture, registrations)
    outcomes: list[control.Outcome] = []
    control.up(change_capture, ["connect"], outcomes.append)
    assert [outcome.acted for outcome in outcomes] == [False] * 3
    assert end_offset(change_capture, registrations) == before


@pytest.mark.parametrize("service", ["postgres", "kafka", "connect"])
def test_a_killed_service_is_named_and_comes_back_without_losing_changes(
    change_capture: Settings, change_topic, crash: Callable[[Settings, str], None], service: str
) -> None:
    order_id = place_order(change_capture, f"before {service} was killed")
    change_topic.until(is_message_of(order_id))
    offset = end_offset(change_capture)
    crash(change_capture, service)
    assert states(change_capture)[service] is State.CRASHED
    control.up(change_capture, ["connect"])
    assert end_offset(change_capture) >= offset
    later_id = place_order(change_capture, f"after {service} was killed")
    change_topic.until(is_message_of(later_id))
    assert {states(change_capture)[name] for name in ("postgres", "kafka", "connect")} == {
        State.RUNNING
    }


def test_changes_made_while_connect_is_down_arrive(
    change_capture: Settings, change_topic, crash: Callable[[Settings, str], None]
) -> None:
    crash(change_capture, "connect")
    order_id = place_order(change_capture, "Otto")
    control.up(change_capture, ["connect"])
    change_topic.until(is_message_of(order_id))


def test_a_connector_that_is_gone_is_named_and_registered_again(
    change_capture: Settings, change_topic
) -> None:
    ask_connect(change_capture, "DELETE", pizzeria.CONNECTOR)
    assert states(change_capture)["connect"] is State.DEGRADED
    assert "is not registered" in connector.trouble(change_capture, connector_of(change_capture))
    control.up(change_capture, ["connect"])
    order_id = place_order(change_capture, "Berta")
    change_topic.until(is_message_of(order_id))


def test_a_connector_that_may_no_longer_replicate_is_named_with_the_remedy(
    change_capture: Settings, change_topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connector, "SNAPSHOT_SECONDS_MAX", 2.0)
    restart = f"{pizzeria.CONNECTOR}/restart?includeTasks=true"
    with psycopg.connect(**change_capture.connection(Role.ADMIN), autocommit=True) as admin:
        admin.execute(f"ALTER ROLE {Role.CDC} NOREPLICATION")
        try:
            ask_connect(change_capture, "POST", restart)
            deadline = time.monotonic() + 30
            while states(change_capture)["connect"] is not State.DEGRADED:
                assert time.monotonic() < deadline
                time.sleep(0.2)
            with pytest.raises(ServiceError, match=f'ALTER ROLE "{Role.CDC}" REPLICATION'):
                control.up(change_capture, ["connect"])
        finally:
            admin.execute(f"ALTER ROLE {Role.CDC} REPLICATION")
    control.up(change_capture, ["connect"])
    order_id = place_order(change_capture, "Carla")
    change_topic.until(is_message_of(order_id))
    assert states(change_capture)["connect"] is State.RUNNING


def test_no_password_is_in_rest_answers_topics_logs_or_command_lines(
    change_capture: Settings, change_topic
) -> None:
    assert leaks(change_capture) == []
