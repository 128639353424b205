"""Airflow as the stack starts it: its sign-in, its health, and a component that crashes."""

from collections.abc import Callable

import httpx
import psutil
import psycopg
import pytest
from lockstep.accounts import AIRFLOW_DATABASE, Role
from lockstep.airflow_admin.client import sign_in
from lockstep.devstack import airflow, control
from lockstep.devstack.service import State
from lockstep.host import process
from lockstep.settings import Settings
from pydantic import SecretStr

pytestmark = pytest.mark.services


def states(settings: Settings) -> dict[str, State]:
    return {one.service: one.state for one in control.statuses(settings)}


def test_every_component_is_healthy(airflow_stack: Settings) -> None:
    assert set(states(airflow_stack).values()) == {State.RUNNING}
    url = f"{airflow_stack.airflow_url}/api/v2/monitor/health"
    health = httpx.get(url, timeout=30).json()
    assert {name: part["status"] for name, part in health.items()} == {
        "metadatabase": "healthy",
        "scheduler": "healthy",
        "triggerer": "healthy",
        "dag_processor": "healthy",
    }


def test_admin_signs_in_with_the_generated_password_only(airflow_stack: Settings) -> None:
    token = sign_in(airflow_stack)
    dags = httpx.get(
        f"{airflow_stack.airflow_url}/api/v2/dags",
        headers={"Authorization": f"Bearer {token}"},
        timeout=30,
    )
    assert dags.status_code == 200
    wrong = airflow_stack.model_copy(update={"airflow_ui_password": SecretStr("wrong")})
    with pytest.raises(airflow.ServiceError, match="refuses the password of admin"):
        sign_in(wrong)
    assert httpx.get(f"{airflow_stack.airflow_url}/api/v2/dags", timeout=30).status_code == 401


def test_it_listens_on_loopback_only(airflow_stack: Settings) -> None:
    pids = {process.read_record(airflow_stack.home, name).pid for name in control.GROUPS["airflow"]}
    pids |= {child.pid for pid in pids for child in psutil.Process(pid).children(recursive=True)}
    listening = {
        (connection.laddr.ip, connection.laddr.port)
        for connection in psutil.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN and connection.pid in pids
    }
    assert listening == {("127.0.0.1", airflow_stack.airflow_port)}


def test_a_killed_component_is_named_and_alone_started_again(
    airflow_stack: Settings, crash: Callable[[Settings, str], None]
) -> None:
    crash(airflow_stack, "airflow-triggerer")
    found = states(airflow_stack)
    assert [name for name, state in found.items() if state is not State.RUNNING] == [
        "airflow-triggerer"
    ]
    outcomes: list[control.Outcome] = []
    control.up(airflow_stack, progress=outcomes.append)
    assert [one.service for one in outcomes if one.acted] == ["airflow-triggerer"]
    assert set(states(airflow_stack).values()) == {State.RUNNING}


def test_after_a_crash_of_its_database_up_waits_for_an_airflow_that_works(
    airflow_stack: Settings, crash: Callable[[Settings, str], None]
) -> None:
    """A scheduler that lost its database ends, late: its last heartbeat is fresh until then."""
    crash(airflow_stack, "postgres")
    control.up(airflow_stack)
    with psycopg.connect(**airflow_stack.connection(Role.AIRFLOW, AIRFLOW_DATABASE)) as metadata:
        beats = metadata.execute(
            "SELECT job_type, max(latest_heartbeat) > pg_postmaster_start_time() FROM job "
            "WHERE job_type != 'LocalTaskJob' GROUP BY job_type"
        ).fetchall()
    assert dict(beats) == {"SchedulerJob": True, "DagProcessorJob": True, "TriggererJob": True}
    assert set(states(airflow_stack).values()) == {State.RUNNING}
