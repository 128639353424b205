"""What died with the driver it shared comes back in one driver, whoever is the first to act."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest
from lockstep.supervise import keeper, launcher, lease
from lockstep.supervise.desired import DesiredState, desired_path, read_desired, write_desired
from lockstep.supervise.errors import StreamBusyError
from lockstep.supervise.health import Health
from lockstep.supervise.observation import observe

MODES = ("message", "outbox", "temporal")
DEADLINE_SECONDS = 10


def wait_for(condition) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def health_of(settings, mode: str) -> Health:
    return observe(settings, mode).finding.health


def has_new_heartbeat(settings, mode: str) -> bool:
    """Whether its heartbeat is younger than its desired state: not that of a dead driver."""
    seen = observe(settings, mode)
    return seen.heartbeat.beat_at >= seen.desired.changed_at


@pytest.fixture
def killed(settings) -> int:
    """One driver of all modes, each kept by another one, has been killed; its pid."""
    record = launcher.start(settings, MODES, "by a test")
    for mode in MODES:
        assert not keeper.ensure_running(settings, mode, f"keeper of {mode}")
        wait_for(lambda mode=mode: has_new_heartbeat(settings, mode))
    return kill(settings, record.pid)


def kill(settings, pid: int) -> int:
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not any(lease.holder(settings, mode) for mode in MODES))
    return pid


def test_one_restart_brings_back_all_that_died_with_the_driver(settings, killed, starts) -> None:
    assert keeper.restart(settings, "outbox", "keeper of outbox", restarts=1)
    wait_for(lambda: all(health_of(settings, mode) is Health.OK for mode in MODES))
    assert len(starts()) == 2
    assert {lease.holder(settings, mode) for mode in MODES} == {starts()[1]}


def test_a_damaged_desired_state_keeps_no_other_mode_from_its_restart(
    settings, killed, starts
) -> None:
    desired_path(settings, "message").write_text("{")
    assert keeper.restart(settings, "outbox", "keeper of outbox", restarts=1)
    wait_for(lambda: all(health_of(settings, mode) is Health.OK for mode in MODES[1:]))
    assert lease.holder(settings, "message") is None


def test_of_all_keepers_at_once_one_starts_a_driver_and_each_counts_its_restart(
    settings, killed, starts
) -> None:
    def restart(mode: str) -> bool:
        return keeper.restart(settings, mode, f"keeper of {mode}", restarts=1)

    with ThreadPoolExecutor(len(MODES)) as pool:
        list(pool.map(restart, MODES))
    wait_for(lambda: all(health_of(settings, mode) is Health.OK for mode in MODES))
    assert len(starts()) == 2
    states = {mode: read_desired(settings, mode) for mode in MODES}
    assert {mode: state.reason for mode, state in states.items()} == {
        mode: f"keeper of {mode}" for mode in MODES
    }
    assert {state.restarts for state in states.values()} == {1}


def test_one_that_its_own_keeper_is_about_to_start_comes_along(settings, killed, starts) -> None:
    write_desired(settings, "message", DesiredState.RUNNING, "keeper of message", restarts=1)
    assert keeper.restart(settings, "outbox", "keeper of outbox", restarts=1)
    wait_for(lambda: all(health_of(settings, mode) is Health.OK for mode in MODES))
    assert len(starts()) == 2
    assert {lease.holder(settings, mode) for mode in MODES} == {starts()[1]}


def test_a_companion_that_another_driver_has_does_not_keep_the_mode_from_its_start(
    settings, killed, starts, monkeypatch
) -> None:
    elsewhere = launcher.start(settings, ["message"], "by a test")
    monkeypatch.setattr(keeper, "_fell_with", lambda *_: ["message"])  # as it was a moment ago
    assert keeper.restart(settings, "outbox", "keeper of outbox", restarts=1)
    assert health_of(settings, "outbox") is Health.OK
    assert lease.holder(settings, "message") == elsewhere.pid


def test_a_stop_that_comes_before_the_restart_wins(settings, killed, starts) -> None:
    launcher.stop(settings, ["outbox"], "by a person")
    assert not keeper.restart(settings, "outbox", "keeper of outbox", restarts=1)
    assert len(starts()) == 1
    assert health_of(settings, "outbox") is Health.STOPPED


def test_a_stop_that_comes_during_the_restart_wins(settings, behave, starts, monkeypatch) -> None:
    launcher.start(settings, ["outbox"], "by a test")
    behave("outbox", "stall")
    wait_for(lambda: health_of(settings, "outbox") is Health.STALLED)
    stop = launcher.stop

    def stopped_by_a_person_too(*arguments: object) -> None:
        stop(*arguments)
        write_desired(settings, "outbox", DesiredState.STOPPED, "by a person")

    monkeypatch.setattr(launcher, "stop", stopped_by_a_person_too)
    assert not keeper.restart(settings, "outbox", "keeper of outbox", restarts=1)
    assert len(starts()) == 1
    assert read_desired(settings, "outbox").reason == "by a person"


def test_who_rebuilds_the_table_is_not_interrupted(settings, starts) -> None:
    launcher.start(settings, ["outbox"], "by a test")
    launcher.stop(settings, ["outbox"], "is rebuilt")
    with lease.acquire(settings, "outbox"), pytest.raises(StreamBusyError, match=str(os.getpid())):
        keeper.ensure_running(settings, "outbox", "keeper of outbox")
    assert read_desired(settings, "outbox").state is DesiredState.STOPPED
    assert len(starts()) == 1


def test_what_shall_not_run_or_runs_elsewhere_is_left_alone(settings, starts) -> None:
    record = launcher.start(settings, MODES, "by a test")
    launcher.stop(settings, ["message"], "enough")
    launcher.stop(settings, ["temporal"], "to be moved")
    elsewhere = launcher.start(settings, ["temporal"], "a driver of its own")
    os.kill(record.pid, signal.SIGKILL)
    wait_for(lambda: lease.holder(settings, "outbox") is None)
    assert keeper.restart(settings, "outbox", "keeper of outbox", restarts=1)
    assert len(starts()) == 3
    assert lease.holder(settings, "temporal") == elsewhere.pid
    assert lease.holder(settings, "message") is None
    assert read_desired(settings, "message").state is DesiredState.STOPPED


def test_what_failed_together_comes_back_together(settings, behave, starts) -> None:
    launcher.start(settings, MODES, "by a test")
    behave("message", "trip")  # which ends the driver of all
    wait_for(lambda: not any(lease.holder(settings, mode) for mode in MODES))
    assert health_of(settings, "message") is Health.FAILED
    behave("message", "")
    assert keeper.restart(settings, "outbox", "keeper of outbox", restarts=1)
    wait_for(lambda: all(health_of(settings, mode) is Health.OK for mode in MODES))
    assert len(starts()) == 2


def test_a_mode_that_only_a_person_can_correct_does_not_come_along(
    settings, behave, starts
) -> None:
    launcher.start(settings, MODES, "by a test")
    behave("message", "fail")
    wait_for(lambda: not any(lease.holder(settings, mode) for mode in MODES))
    assert keeper.restart(settings, "outbox", "keeper of outbox", restarts=1)
    wait_for(lambda: health_of(settings, "temporal") is Health.OK)
    assert health_of(settings, "message") is Health.FAILED


def test_a_mode_that_failed_by_itself_is_left_to_its_own_keeper(settings, behave, starts) -> None:
    record = launcher.start(settings, ["outbox"], "by a test")
    behave("temporal", "fail")
    with pytest.raises(launcher.StreamFailedError):
        launcher.start(settings, ["temporal"], "by a test")
    kill(settings, record.pid)
    assert keeper.restart(settings, "outbox", "keeper of outbox", restarts=1)
    assert health_of(settings, "outbox") is Health.OK
    assert health_of(settings, "temporal") is Health.FAILED


def test_a_companion_that_cannot_start_is_no_failure_of_the_mode_that_is_kept(
    settings, killed, behave
) -> None:
    behave("temporal", "starting")
    assert keeper.restart(settings, "outbox", "keeper of outbox", restarts=1)
    assert health_of(settings, "outbox") is Health.OK


def test_how_long_a_stream_has_worked_counts_from_its_own_start(settings) -> None:
    """Else one that joins an old driver and fails at once would be restarted without end."""
    launcher.start(settings, ["outbox"], "by a test")
    wait_for(lambda: has_new_heartbeat(settings, "outbox"))
    seen = observe(settings, "outbox")
    beat = replace(
        seen.heartbeat,
        driver_started_at=seen.heartbeat.beat_at - timedelta(hours=1),
        stream_started_at=seen.heartbeat.beat_at - timedelta(seconds=3),
    )
    assert keeper.worked_seconds(replace(seen, heartbeat=beat)) == 3.0
