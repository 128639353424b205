"""The operator: one stream for one run, restarted when it fails, given up loudly, never doubled."""

import os
import signal
import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferred
from lockstep.airflow_ops.stream_health import WakeReason
from lockstep.airflow_ops.streams import SuperviseStreamOperator
from lockstep.capture import connector
from lockstep.errors import ServiceError
from lockstep.model.modes import StreamMode
from lockstep.supervise import keeper, launcher, lease, observation
from lockstep.supervise.desired import DesiredState, read_desired, write_desired
from lockstep.supervise.health import Health
from pizzeria import names as pizzeria

from tests.airflow_ops.made_dags import dags_of
from tests.supervise.conftest import behave, settings, starts

__all__ = ["behave", "settings", "starts"]

MODE = "outbox"
DESIRED_BY = "asked for by the DAG run r, try 1"


def context(try_number: int = 1, state: str = "running") -> dict:
    task = SimpleNamespace(dag_id="d", task_id="t", run_id="r", try_number=try_number)
    task.get_task_states = lambda **_: {"r": {"t": state}}
    return {"ti": task}


def operator(restarts_max: int | str = 2) -> SuperviseStreamOperator:
    return SuperviseStreamOperator(task_id="supervise", mode=MODE, restarts_max=restarts_max)


def watch_of(deferral) -> dict:
    """What the trigger gets, of a task that was deferred."""
    assert deferral.value.method_name == "resume"
    return deferral.value.trigger.serialize()[1]


def execute(**arguments) -> dict:
    with pytest.raises(TaskDeferred) as deferral:
        operator().execute(context(**arguments))
    return watch_of(deferral)


def resume(reason: WakeReason, watch: dict, why: str = "is not well") -> dict:
    event = {"reason": reason.value, "why": why, "watch": watch}
    with pytest.raises(TaskDeferred) as deferral:
        operator().resume(context(), event)
    return watch_of(deferral)


def kill(pid: int, settings) -> None:
    os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while lease.holder(settings, MODE) is not None:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_run_starts_the_stream_and_defers(settings, starts) -> None:
    watch = execute()
    assert (watch["mode"], watch["desired_by"], watch["restart_at"]) == (MODE, DESIRED_BY, None)
    assert starts() == [lease.holder(settings, MODE)]
    assert read_desired(settings, MODE).reason == DESIRED_BY


def test_a_stream_that_runs_is_taken_over_and_not_doubled(settings, starts) -> None:
    record = launcher.start(settings, [MODE], "by hand")
    execute()
    assert starts() == [record.pid]
    assert read_desired(settings, MODE).reason == DESIRED_BY
    execute(try_number=2)
    assert starts() == [record.pid]
    assert read_desired(settings, MODE).reason == DESIRED_BY.replace("try 1", "try 2")


def test_a_stream_that_is_just_stopping_is_started_again(settings, starts) -> None:
    execute()
    write_desired(settings, MODE, DesiredState.STOPPED, "enough")
    execute(try_number=2)
    assert len(starts()) == 2
    assert observation.observe(settings, MODE).finding.health is Health.OK


def test_a_dead_stream_is_restarted_at_once_then_after_pauses_and_counted(settings, starts) -> None:
    watch = execute()
    kill(starts()[0], settings)
    watch = resume(WakeReason.DEAD, watch)
    assert watch["restart_at"] is None
    assert len(starts()) == 2
    assert read_desired(settings, MODE).restarts == 1
    kill(starts()[1], settings)
    watch = resume(WakeReason.DEAD, watch)
    assert watch["restarts"] == 2
    pause = datetime.fromisoformat(watch["restart_at"]) - datetime.now(UTC)
    assert timedelta(seconds=3) < pause <= timedelta(seconds=5)
    assert len(starts()) == 2
    watch = resume(WakeReason.RESTART_DUE, watch)
    assert watch["restart_at"] is None
    assert len(starts()) == 3
    assert read_desired(settings, MODE).restarts == 2


def test_a_stream_that_came_back_by_hand_is_not_restarted(settings, starts) -> None:
    watch = execute()
    for _ in range(2):  # the first restart is at once
        kill(starts()[-1], settings)
        watch = resume(WakeReason.DEAD, watch)
    launcher.start(settings, [MODE], "by hand")
    resume(WakeReason.RESTART_DUE, watch)
    assert len(starts()) == 3
    assert read_desired(settings, MODE).reason == DESIRED_BY


def test_a_stream_that_lives_but_does_not_work_is_ended_and_replaced(
    settings, starts, behave
) -> None:
    watch = execute()
    behave(MODE, "stall")
    deadline = time.monotonic() + 10
    while observation.observe(settings, MODE).finding.health is not Health.STALLED:
        assert time.monotonic() < deadline
    resume(WakeReason.STALLED, watch)
    assert len(starts()) == 2
    assert lease.holder(settings, MODE) == starts()[1]


def test_a_stream_that_fails_again_and_again_is_given_up_with_its_reason(
    settings, starts, behave
) -> None:
    watch = execute()
    behave(MODE, "die")
    kill_seen = time.monotonic() + 10
    while lease.holder(settings, MODE) is not None:
        assert time.monotonic() < kill_seen
    watch = resume(WakeReason.DEAD, watch)  # restarted at once, and dead again
    assert (watch["restarts"], watch["restart_at"] is None) == (2, False)
    with pytest.raises(AirflowFailException) as failure:
        operator().resume(context(), {"reason": "restart due", "why": "is dead", "watch": watch})
    assert "given up after 2 restarts in a row" in str(failure.value)
    assert "about to die" in str(failure.value)
    desired = read_desired(settings, MODE)
    assert desired.state is DesiredState.STOPPED
    assert "given up after 2 restarts" in desired.reason
    assert len(starts()) == 3


def test_a_full_disk_is_waited_for_and_not_counted(settings, starts, monkeypatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(keeper, "write_desired", full)
        patched.setattr(launcher, "write_desired", full)
        watch = execute()
    assert datetime.fromisoformat(watch["restart_at"]) > datetime.now(UTC)
    assert not starts()
    resume(WakeReason.RESTART_DUE, watch)
    assert len(starts()) == 1


def test_an_error_that_only_a_person_can_correct_is_given_up_at_once(
    settings, starts, behave
) -> None:
    behave(MODE, "fail")
    with pytest.raises(AirflowFailException, match=r"PoisonedRecordError: the record at offset 7"):
        operator().execute(context())
    assert len(starts()) == 1
    assert read_desired(settings, MODE).state is DesiredState.STOPPED


def test_without_any_restart_allowed_the_first_failure_is_the_last(settings, starts) -> None:
    watch = execute()
    kill(starts()[0], settings)
    event = {"reason": "dead", "why": "its driver has ended without an error", "watch": watch}
    with pytest.raises(AirflowFailException, match=r"after 0 restarts .*without an error"):
        operator(restarts_max="0").resume(context(), event)


def test_a_stream_stopped_on_purpose_is_a_success_that_says_so(caplog, capsys) -> None:
    event = {"reason": "stopped", "why": "stopped by `lockstep stream stop`", "watch": {}}
    assert operator().resume(context(), event) is None
    output = caplog.text + capsys.readouterr().out
    assert "was stopped on purpose: stopped by `lockstep stream stop`" in output


def test_files_that_cannot_be_read_fail_the_attempt_which_airflow_repeats() -> None:
    event = {"reason": "unreadable", "why": "no rights", "watch": {}}
    with pytest.raises(AirflowException, match="no rights") as failure:
        operator().resume(context(), event)
    assert not isinstance(failure.value, AirflowFailException)


def test_a_failed_connector_is_restarted_and_counted_then_given_up(
    settings, starts, monkeypatch
) -> None:
    restarted = []
    monkeypatch.setattr(connector, "restart_failed", lambda *asked: restarted.append(asked))
    watch = execute()
    for number in (1, 2):
        watch = resume(WakeReason.CONNECTOR_FAILED, watch, "task FAILED: no slot")
        assert watch["connector_restarts"] == len(restarted) == number
    event = {"reason": "connector failed", "why": "task FAILED: no slot", "watch": watch}
    with pytest.raises(AirflowFailException, match="after 2 restarts in a row: task FAILED"):
        operator().resume(context(), event)
    assert len(starts()) == 1
    assert lease.holder(settings, MODE) is None


def test_a_connector_that_cannot_be_restarted_yet_is_watched_on(monkeypatch, settings) -> None:
    def refuse(*_):
        raise ServiceError("the database is away")

    monkeypatch.setattr(connector, "restart_failed", refuse)
    watch = execute()
    restart_at = datetime.now(UTC).isoformat()
    watch = resume(WakeReason.CONNECTOR_FAILED, {**watch, "restart_at": restart_at})
    assert watch["connector_restarts"] == 1
    assert watch["restart_at"] == restart_at


def test_a_users_kill_while_it_starts_stops_the_stream(settings) -> None:
    launcher.start(settings, [MODE], DESIRED_BY)
    task = operator()
    task._task = context(state="failed")["ti"]
    with pytest.raises(SystemExit):
        task.on_kill()
    assert read_desired(settings, MODE).state is DesiredState.STOPPED


@pytest.mark.parametrize("state", ["running", None])
def test_a_worker_that_ends_leaves_the_stream_alone(settings, state, monkeypatch) -> None:
    launcher.start(settings, [MODE], DESIRED_BY)
    task = operator()
    task._task = context(state="running")["ti"]
    if state is None:  # Airflow does not answer
        monkeypatch.setattr("lockstep.airflow_ops.streams.STATE_SECONDS_MAX", 0.1)
        task._task.get_task_states = lambda **_: time.sleep(1) or {}
    task.on_kill()
    assert read_desired(settings, MODE).state is DesiredState.RUNNING


@pytest.fixture(scope="module")
def dags() -> dict:
    """The DAGs of the pizzeria's streams."""
    own = {"stream", pizzeria.MANIFEST}
    return {name: dag for name, dag in dags_of().items() if own <= set(dag.tags)}


def test_there_is_one_dag_for_each_mode_started_by_hand(dags) -> None:
    assert set(dags) == {pizzeria.stream_dag_id(mode) for mode in StreamMode}
    for mode in StreamMode:
        dag = dags[pizzeria.stream_dag_id(mode)]
        [task] = dag.tasks
        assert task.mode == mode
        assert dag.max_active_runs == 1
        assert not dag.timetable.can_be_scheduled
        assert task.execution_timeout is None  # it counts while the task is deferred, too
        assert f"lockstep stream stop {mode}" in dag.doc_md
        assert "MODE" not in dag.doc_md.replace(mode.upper(), "")
