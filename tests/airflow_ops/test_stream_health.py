"""The trigger: wakes the operator for each reason, once, and never stops a stream unasked."""

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance
from lockstep.airflow_ops import stream_health
from lockstep.airflow_ops.stream_health import StreamHealthTrigger, WakeReason
from lockstep.capture import connector
from lockstep.errors import ServiceError
from lockstep.supervise import launcher, lease, patience
from lockstep.supervise.desired import DesiredState, desired_path, read_desired, write_desired
from lockstep.supervise.health import Health
from lockstep.supervise.heartbeat import heartbeat_path
from lockstep.supervise.logs import end_of_log
from lockstep.supervise.observation import observe

from tests.supervise.conftest import behave, settings, starts

__all__ = ["behave", "settings", "starts"]

MODE = "outbox"
DESIRED_BY = "asked for by the DAG run r1, try 1"
SECONDS_MAX = 10


@pytest.fixture(autouse=True)
def quick(monkeypatch, settings):
    """No pauses, and a Kafka Connect where all is well."""
    monkeypatch.setattr(stream_health, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(stream_health, "CONNECTOR_POLL_SECONDS", 0.0)
    monkeypatch.setattr(patience, "LASTING_SECONDS", dict.fromkeys(patience.LASTING_SECONDS, 0.1))
    monkeypatch.setattr(connector, "failure", lambda *_: None)


@pytest.fixture
def stream(settings) -> launcher.ProcessRecord:
    return launcher.start(settings, [MODE], DESIRED_BY)


def trigger(**arguments) -> StreamHealthTrigger:
    return StreamHealthTrigger(MODE, DESIRED_BY, **arguments)


def event_of(watching: StreamHealthTrigger, seconds_max: float = SECONDS_MAX) -> dict:
    """The one event that a trigger fires."""

    async def run() -> list:
        return [event async for event in watching.run()]

    [event] = asyncio.run(asyncio.wait_for(run(), seconds_max))
    return json.loads(json.dumps(event.payload))


def is_silent(watching: StreamHealthTrigger) -> bool:
    try:
        event_of(watching, seconds_max=0.6)
    except TimeoutError:
        return True
    return False


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_trigger_is_the_same_after_a_round_trip_through_airflow() -> None:
    full = {
        "restart_at": "2026-11-03T12:00:00+00:00",
        "restarts": 3,
        "connector_restarts": 2,
        "connector_restarted_at": "2026-11-03T12:00:00+00:00",
        "pipeline": "orders_enriched",
    }
    path, arguments = trigger(**full).serialize()
    assert path == "lockstep.airflow_ops.stream_health.StreamHealthTrigger"
    assert arguments == {"mode": MODE, "desired_by": DESIRED_BY, **full}
    again = StreamHealthTrigger(**json.loads(json.dumps(arguments)))
    assert again.serialize() == (path, arguments)


def test_a_stream_that_works_wakes_no_task_and_runs_on(stream, settings) -> None:
    assert is_silent(trigger())
    assert lease.holder(settings, MODE) == stream.pid


def test_a_killed_driver_wakes_as_dead(stream) -> None:
    os.kill(stream.pid, signal.SIGKILL)
    event = event_of(trigger(restarts=1))
    assert event["reason"] == WakeReason.DEAD == "dead"
    assert "ended without an error" in event["why"]
    assert event["watch"] == trigger(restarts=1).serialize()[1]


@pytest.mark.parametrize(
    ("script", "reason", "why"),
    [
        ("fail", WakeReason.FAILED, "PoisonedRecordError: the record at offset 7"),
        ("stall", WakeReason.STALLED, "no progress for 3600 s while 100 records wait"),
        ("lag", WakeReason.LAGGING, "is 3,600.0 s behind"),
        ("die", WakeReason.DEAD, "ended without an error"),
    ],
)
def test_each_way_to_fail_has_its_reason(stream, behave, script, reason, why) -> None:
    behave(MODE, script)
    event = event_of(trigger())
    assert event["reason"] == reason
    assert why in event["why"]


def test_a_driver_that_hangs_wakes_as_stalled(stream, behave, settings) -> None:
    behave(MODE, "hang")
    wait_until(lambda: "beats no more" in end_of_log(settings, MODE))
    path = heartbeat_path(settings, MODE)
    beat = json.loads(path.read_text())
    beat["beat_at"] = (datetime.now(UTC) - timedelta(minutes=5)).isoformat()
    path.write_text(json.dumps(beat))
    event = event_of(trigger())
    assert event["reason"] == WakeReason.STALLED
    assert "has not beaten for 300 s" in event["why"]


def test_a_stream_stopped_by_hand_wakes_when_it_has_ended(stream, settings, behave) -> None:
    behave(MODE, "deaf")
    write_desired(settings, MODE, DesiredState.STOPPED, "enough")
    assert is_silent(trigger())
    behave(MODE, "")
    event = event_of(trigger())
    assert (event["reason"], event["why"]) == (WakeReason.STOPPED, "enough")
    assert lease.holder(settings, MODE) is None


def test_a_moments_failure_wakes_no_task(stream, behave, monkeypatch) -> None:
    monkeypatch.setitem(patience.LASTING_SECONDS, Health.STALLED, 5.0)
    behave(MODE, "stall")
    assert is_silent(trigger())


def test_a_stream_that_is_down_is_left_in_peace_until_its_restart_is_due(settings) -> None:
    write_desired(settings, MODE, DesiredState.RUNNING, DESIRED_BY)
    path = desired_path(settings, MODE)
    path.write_text(path.read_text().replace(f"{datetime.now(UTC):%Y}-", "2025-"))
    due = (datetime.now(UTC) + timedelta(seconds=0.8)).isoformat()
    assert is_silent(trigger(restart_at=due))
    event = event_of(trigger(restart_at=due, restarts=4))
    assert event["reason"] == WakeReason.RESTART_DUE
    assert event["watch"]["restarts"] == 4


def test_a_stream_that_is_well_before_its_restart_is_watched_on(stream) -> None:
    due = (datetime.now(UTC) + timedelta(seconds=0.2)).isoformat()
    watching = trigger(restart_at=due)
    assert is_silent(watching)
    os.kill(stream.pid, signal.SIGKILL)
    assert event_of(watching)["reason"] == WakeReason.DEAD


def test_a_restart_that_another_keeper_made_is_not_made_again(stream, behave, settings) -> None:
    """As after a restart of the triggerer, which still has its first arguments."""
    long_ago = (datetime.now(UTC) - timedelta(days=20)).isoformat()
    behave(MODE, "lag")
    wait_until(lambda: observe(settings, MODE).finding.health is Health.LAGGING)
    assert event_of(trigger(restart_at=long_ago, restarts=3))["reason"] == WakeReason.LAGGING


def test_a_stream_that_is_stopped_while_its_restart_is_awaited_is_stopped(settings) -> None:
    write_desired(settings, MODE, DesiredState.STOPPED, "enough")
    due = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    assert event_of(trigger(restart_at=due))["reason"] == WakeReason.STOPPED


def test_a_failed_connector_wakes_and_one_just_restarted_is_waited_for(stream, monkeypatch) -> None:
    monkeypatch.setattr(connector, "failure", lambda *_: "task FAILED: no slot")
    just_now = datetime.now(UTC)
    assert is_silent(trigger(connector_restarted_at=just_now.isoformat()))
    before = (just_now - timedelta(minutes=1)).isoformat()
    event = event_of(trigger(connector_restarts=2, connector_restarted_at=before))
    assert (event["reason"], event["why"]) == ("connector failed", "task FAILED: no slot")
    assert event["watch"]["connector_restarts"] == 2


def test_a_connect_that_does_not_answer_is_reported_once_and_no_failure(
    stream, monkeypatch, capsys
) -> None:
    def silent(*_):
        raise ServiceError("Kafka Connect does not answer")

    monkeypatch.setattr(connector, "failure", silent)
    assert is_silent(trigger())
    assert capsys.readouterr().out.count("Kafka Connect does not answer") == 1


def test_files_that_cannot_be_read_wake_after_a_while(stream, settings, monkeypatch) -> None:
    desired_path(settings, MODE).write_text("{")
    assert is_silent(trigger())
    monkeypatch.setattr(stream_health, "UNREADABLE_SECONDS_MAX", 0.1)
    event = event_of(trigger())
    assert event["reason"] == WakeReason.UNREADABLE
    assert "desired.json is damaged" in event["why"]


def test_a_triggerer_that_ends_leaves_the_stream_alone(stream, settings) -> None:
    """Airflow cancels the trigger and calls its cleanup."""

    async def cancelled() -> None:
        watching = trigger()
        task = asyncio.create_task(anext(aiter(watching.run())))
        await asyncio.sleep(0.1)
        task.cancel()
        await watching.cleanup()

    asyncio.run(cancelled())
    assert read_desired(settings, MODE).state is DesiredState.RUNNING
    assert lease.holder(settings, MODE) == stream.pid


def killed(
    monkeypatch, state: str | Exception | None, answers_after: float = 0.0, cancels: int = 0
) -> None:
    """The trigger is killed while Airflow knows this state of its task.

    answers_after: seconds until Airflow says so. cancels: how often it is cancelled meanwhile.
    """

    def get_task_states(**asked):
        time.sleep(answers_after)
        if isinstance(state, Exception):
            raise state
        assert asked == {"dag_id": "d", "task_ids": ["t"], "run_ids": ["r"]}
        return {"r": {"t": state}} if state else {}

    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", staticmethod(get_task_states))
    watching = trigger()
    watching._task_instance = SimpleNamespace(dag_id="d", task_id="t", run_id="r")

    async def kill() -> None:
        killing = asyncio.create_task(watching.on_kill())
        for _ in range(cancels):
            await asyncio.sleep(answers_after / (2 * cancels))
            killing.cancel()
        await killing

    asyncio.run(kill())


@pytest.mark.parametrize("state", ["failed", "success", "scheduled", "running", None])
def test_a_users_action_stops_the_stream_gracefully(stream, settings, monkeypatch, state) -> None:
    killed(monkeypatch, state)
    desired = read_desired(settings, MODE)
    assert desired.state is DesiredState.STOPPED
    assert "user's action" in desired.reason


def test_a_kill_that_is_cancelled_again_and_again_stops_the_stream(
    stream, settings, monkeypatch
) -> None:
    """As the triggerer of Airflow 3.3 does, once a second, until the trigger has ended."""
    killed(monkeypatch, "failed", answers_after=1.0, cancels=5)
    assert read_desired(settings, MODE).state is DesiredState.STOPPED


def test_a_kill_ends_in_time_though_airflow_does_not_answer(stream, settings, monkeypatch) -> None:
    monkeypatch.setattr(stream_health, "KILL_SECONDS_MAX", 0.1)
    started = time.monotonic()
    with pytest.raises(TimeoutError):
        killed(monkeypatch, "failed", answers_after=SECONDS_MAX / 10)
    assert time.monotonic() - started < SECONDS_MAX
    assert read_desired(settings, MODE).state is DesiredState.RUNNING


@pytest.mark.parametrize("state", ["deferred", RuntimeError("the API is away")])
def test_a_trigger_that_only_moves_stops_nothing(stream, settings, monkeypatch, state) -> None:
    killed(monkeypatch, state)
    assert read_desired(settings, MODE).state is DesiredState.RUNNING


def test_a_later_attempts_stream_is_not_stopped(stream, settings, monkeypatch) -> None:
    later = DESIRED_BY.replace("try 1", "try 2")
    write_desired(settings, MODE, DesiredState.RUNNING, later)
    killed(monkeypatch, "running")
    assert read_desired(settings, MODE).reason == later
