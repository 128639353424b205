"""Maintenance as a task of a real Airflow, over its real metadata and a real service's log."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from lockstep.accounts import AIRFLOW_DATABASE, Role
from lockstep.airflow_admin.client import AirflowClient, signed_in
from lockstep.airflow_names import MAINTENANCE_DAG_ID
from lockstep.host import files
from lockstep.host.files import log_path
from lockstep.maintain.airflow_files import clean_metadata
from lockstep.maintain.outcome import State
from lockstep.maintain.service_logs import cut_service_logs
from lockstep.model.modes import StreamMode
from lockstep.settings import Settings
from pizzeria.names import Login, stream_dag_id

pytestmark = pytest.mark.services

DAG_SECONDS_MAX = 300.0
LOG_SECONDS_MAX = 30.0
STREAM_DAG_ID = stream_dag_id(StreamMode.OUTBOX)
OF_THE_TEST = "dag_id = %s AND run_id LIKE 'manual__%%'"
"""Its runs, without those that the DAG's schedule begins, at 03:35 or when Airflow starts later."""


def wait_until(is_so: Callable[[], bool], seconds_max: float) -> None:
    deadline = time.monotonic() + seconds_max
    while not is_so():
        assert time.monotonic() < deadline, f"not within {seconds_max} s"
        time.sleep(0.2)


def metadata_of(settings: Settings) -> psycopg.Connection:
    connection = settings.connection(Role.AIRFLOW, AIRFLOW_DATABASE)
    return psycopg.connect(**connection, autocommit=True)


def run_to_success(airflow: AirflowClient, metadata: psycopg.Connection) -> None:
    """Trigger the DAG, and wait for its run."""
    since = datetime.now(UTC)
    wait_until(lambda: airflow.knows(MAINTENANCE_DAG_ID), DAG_SECONDS_MAX)
    airflow.trigger(MAINTENANCE_DAG_ID)
    wait_until(lambda: not airflow.unfinished(MAINTENANCE_DAG_ID), DAG_SECONDS_MAX)
    states = metadata.execute(
        f"SELECT state FROM dag_run WHERE {OF_THE_TEST} AND run_after >= %s",
        [MAINTENANCE_DAG_ID, since],
    )
    assert states.fetchall() == [("success",)]


def begin_40_days_ago(metadata: psycopg.Connection) -> None:
    """Give the DAG's runs so far an age, and the DAG of a stream a run that began with them."""
    for table in ("dag_run", "task_instance"):
        update = f"UPDATE {table} SET start_date = start_date - INTERVAL '40 days'"
        metadata.execute(f"{update} WHERE {OF_THE_TEST}", [MAINTENANCE_DAG_ID])
    metadata.execute(
        f"CREATE TEMPORARY TABLE copied AS SELECT * FROM dag_run WHERE {OF_THE_TEST}",
        [MAINTENANCE_DAG_ID],
    )
    metadata.execute(
        "UPDATE copied SET id = id + 1000000, dag_id = %s, run_id = 'of a stream'", [STREAM_DAG_ID]
    )
    metadata.execute("INSERT INTO dag_run SELECT * FROM copied")


def old_runs(metadata: psycopg.Connection) -> dict[str, int]:
    """How many runs of each DAG began long ago."""
    found = metadata.execute(
        "SELECT dag_id, count(*) FROM dag_run WHERE start_date < %s GROUP BY dag_id",
        [datetime.now(UTC) - timedelta(days=30)],
    )
    return dict(found.fetchall())


def test_the_dag_deletes_old_runs_and_leaves_those_of_streams_alone(
    airflow_stack: Settings,
) -> None:
    with signed_in(airflow_stack) as airflow, metadata_of(airflow_stack) as metadata:
        run_to_success(airflow, metadata)
        begin_40_days_ago(metadata)
        old = {MAINTENANCE_DAG_ID: 1, STREAM_DAG_ID: 1}
        assert old_runs(metadata) == old
        found = clean_metadata(airflow_stack, datetime.now(UTC), is_dry_run=True)
        assert found.state is State.DONE
        rows = int(found.note.split()[0])
        assert rows >= 2  # the run, and its task's instance
        assert old_runs(metadata) == old
        run_to_success(airflow, metadata)
        assert old_runs(metadata) == {STREAM_DAG_ID: 1}
    again = clean_metadata(airflow_stack, datetime.now(UTC), is_dry_run=False)
    assert again.note.startswith("0 rows")


def test_postgresqls_log_stays_bounded_while_it_runs(
    postgres: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LOG_BYTES_MAX", 5_000)
    log = log_path(postgres.home, "postgres")
    for number in range(3):
        name = f"not_there_{number}"
        with psycopg.connect(**postgres.connection(Login.SHOP), autocommit=True) as connection:
            while log.stat().st_size <= files.LOG_BYTES_MAX or name not in log.read_text():
                with pytest.raises(psycopg.errors.UndefinedTable):
                    connection.execute(f"SELECT * FROM {name}")
            assert cut_service_logs(postgres, is_dry_run=False).freed_bytes > 0
            assert log.stat().st_size <= files.LOG_BYTES_MAX
            with pytest.raises(psycopg.errors.UndefinedTable):
                connection.execute("SELECT * FROM after_the_cut")
            wait_until(lambda: "after_the_cut" in log.read_text(), LOG_SECONDS_MAX)
            assert "\0" not in log.read_text()
        assert name in log.with_suffix(".log.1").read_text()
