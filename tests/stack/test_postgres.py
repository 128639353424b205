"""PostgreSQL as the stack starts it: who may do what, crashes, passwords, configuration."""

import socket
from collections.abc import Callable

import psycopg
import pytest
from lockstep.accounts import Role
from lockstep.devstack import control, postgres_database
from lockstep.devstack.service import State
from lockstep.errors import ServiceError
from lockstep.host import process
from lockstep.host.files import log_path
from lockstep.pipeline.project import read_project
from lockstep.settings import Settings, source_password_setting
from lockstep.sources.database_catalog import read_database_catalog
from pizzeria import names as pizzeria
from pizzeria.names import Login
from pydantic import SecretStr

pytestmark = pytest.mark.services

SHOP_PASSWORD = source_password_setting(pizzeria.SOURCE, Login.SHOP)


def connect(settings: Settings, role: str, database: str = pizzeria.DATABASE):
    return psycopg.connect(**settings.connection(role, database))


def state_of(settings: Settings, service: str) -> State:
    return {one.service: one.state for one in control.statuses(settings)}[service]


def new_client(settings: Settings, name: str) -> int:
    with connect(settings, Login.SHOP) as shop:
        row = shop.execute("INSERT INTO clients (name) VALUES (%s) RETURNING id", [name])
        return row.fetchone()[0]


def client_names(settings: Settings) -> set[str]:
    with connect(settings, Role.BATCH_READER) as reader:
        return {name for (name,) in reader.execute("SELECT name FROM clients")}


@pytest.mark.parametrize(
    ("role", "statement"),
    [
        (Role.BATCH_READER, "SELECT pg_export_snapshot()"),
        (Role.BATCH_READER, "SELECT * FROM order_enriched_in"),
        *((Role.BATCH_READER, f"SELECT * FROM {t}") for t in pizzeria.ENRICHMENT_TABLES),
        (Role.BATCH_READER, "SELECT pg_logical_emit_message(true, 'lockstep.cut', 'x')"),
        (Login.SHOP, "INSERT INTO clients (name) VALUES ('x')"),
        (Login.SHOP, "UPDATE pizzas SET price = 1"),
        *((Role.CDC, f"SELECT * FROM {t}") for t in pizzeria.CAPTURED_TABLES),
        (Role.CDC, "SELECT pg_create_logical_replication_slot('t', 'pgoutput', true)"),
    ],
)
def test_each_role_may_do_its_work(postgres: Settings, role: str, statement: str) -> None:
    with connect(postgres, role) as connection:
        connection.execute(statement)
        connection.rollback()


@pytest.mark.parametrize(
    ("role", "statement"),
    [
        (Role.BATCH_READER, "INSERT INTO clients (name) VALUES ('x')"),
        (Role.BATCH_READER, "DELETE FROM orders"),
        (Role.BATCH_READER, "SELECT * FROM orders_outbox"),
        (Role.BATCH_READER, "CREATE TABLE mine (id int)"),
        (Login.SHOP, "CREATE TABLE mine (id int)"),
        (Login.SHOP, "DELETE FROM orders_outbox"),
        (Login.SHOP, "ALTER TABLE orders REPLICA IDENTITY DEFAULT"),
        (Role.CDC, "UPDATE orders SET pizzas = '{}'"),
        (Role.CDC, "CREATE TABLE mine (id int)"),
        (Login.OWNER, "ALTER SYSTEM SET wal_level = minimal"),
    ],
)
def test_no_role_may_do_more(postgres: Settings, role: str, statement: str) -> None:
    with connect(postgres, role) as connection:
        connection.autocommit = True
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(statement)


@pytest.mark.parametrize("database", ["airflow", "postgres"])
def test_the_shop_reaches_no_other_database(postgres: Settings, database: str) -> None:
    with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
        connect(postgres, Login.SHOP, database)


def test_no_one_signs_in_without_the_password(
    postgres: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SHOP_PASSWORD, "wrong")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        connect(postgres, Login.SHOP)


def test_a_reader_that_waits_for_a_lock_gives_up(postgres: Settings) -> None:
    """Else a TRUNCATE between a run's snapshot and its reads stops both for ever."""
    with connect(postgres, Role.BATCH_READER) as reader:
        assert reader.execute("SHOW lock_timeout").fetchone() == ("30s",)


def test_preparing_again_writes_nothing(postgres: Settings) -> None:
    """No transaction gets an id in at least one of some tries: others write to this server, too."""

    def ids_given(admin: psycopg.Connection) -> int:
        newest = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
        (before,) = admin.execute(newest).fetchone()
        postgres_database.prepare_database(postgres)
        (after,) = admin.execute(newest).fetchone()
        return after - before

    with connect(postgres, Role.ADMIN) as admin:
        admin.execute("SELECT pg_current_xact_id()")  # everything before is in the log
        admin.commit()
        admin.autocommit = True
        assert min(ids_given(admin) for _ in range(5)) == 0


def test_a_changed_password_is_set_and_not_logged(postgres: Settings) -> None:
    try:
        with pytest.MonkeyPatch.context() as changed:
            changed.setenv(SHOP_PASSWORD, "quite-another-password")
            postgres_database.prepare_database(postgres)
            connect(postgres, Login.SHOP).close()
    finally:
        postgres_database.prepare_database(postgres)
    connect(postgres, Login.SHOP).close()
    assert "quite-another-password" not in log_path(postgres.home, "postgres").read_text()


def test_a_killed_server_is_named_and_comes_back_with_its_data(
    postgres: Settings, crash: Callable[[Settings, str], None]
) -> None:
    new_client(postgres, "before the crash")
    crash(postgres, "postgres")
    assert state_of(postgres, "postgres") is State.CRASHED
    control.up(postgres, ["postgres"])
    assert state_of(postgres, "postgres") is State.RUNNING
    assert "before the crash" in client_names(postgres)
    assert new_client(postgres, "after the crash") > 0


def test_a_stopped_server_comes_back_with_its_data_on_another_port(postgres: Settings) -> None:
    new_client(postgres, "before the stop")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    control.down(postgres)
    moved = postgres.model_copy(update={"postgres_port": port})
    try:
        control.up(moved, ["postgres"])
        assert "before the stop" in client_names(moved)
    finally:
        control.down(moved)
        control.up(postgres, ["postgres"])


def test_lost_secrets_are_reported_with_what_to_do(postgres: Settings) -> None:
    lost = postgres.model_copy(update={"admin_password": SecretStr("another")})
    with pytest.raises(ServiceError, match=r"does not know the password .* bring that file back"):
        control.up(lost, ["postgres"])
    assert process.read_record(postgres.home, "postgres").process() is not None


def test_a_port_in_use_is_reported_and_nothing_is_started(postgres: Settings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        taken = postgres.model_copy(update={"kafka_port": port})
        with pytest.raises(ServiceError, match=rf"port {port} .* LOCKSTEP_KAFKA_PORT"):
            control.up(taken, ["kafka"])
    assert process.read_record(postgres.home, "kafka") is None


def test_the_pizzerias_catalog_is_that_of_its_schema(postgres: Settings) -> None:
    source = read_project(postgres.project).sources[pizzeria.DATABASE]
    with connect(postgres, Role.BATCH_READER) as connection:
        assert read_database_catalog(connection, source.name) == source.catalog
