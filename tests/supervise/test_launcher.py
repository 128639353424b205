"""Streams are started once, in a process of their own, and stopped gracefully or else killed."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
from lockstep.settings import Settings
from lockstep.supervise import launcher, lease
from lockstep.supervise.desired import DesiredState, desired_path, read_desired
from lockstep.supervise.errors import StreamBusyError, StreamFailedError
from lockstep.supervise.health import Health
from lockstep.supervise.heartbeat import DriverState, read_heartbeat
from lockstep.supervise.logs import end_of_log
from lockstep.supervise.observation import observe, running_workers

MODE, OTHER = "outbox", "temporal"
DEADLINE_SECONDS = 10


@pytest.fixture
def shorten_deadlines(monkeypatch):
    """For tests that wait for them; elsewhere a driver may take its time on a busy machine."""

    def shorten() -> None:
        monkeypatch.setattr(launcher, "START_SECONDS_MAX", 5.0)
        monkeypatch.setattr(launcher, "STOP_SECONDS_MAX", 1.0)
        monkeypatch.setattr(launcher, "TERM_SECONDS_MAX", 1.0)

    return shorten


def start(settings, *modes: str):
    return launcher.start(settings, modes, "by a test")


def wait_until_free(settings, mode: str) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while lease.holder(settings, mode) is not None:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_started_stream_works_when_start_returns(settings) -> None:
    record = start(settings, MODE)
    seen = observe(settings, MODE)
    assert seen.finding.health is Health.OK
    assert seen.holder == seen.heartbeat.pid == record.pid
    assert seen.desired.state is DesiredState.RUNNING
    assert running_workers(settings) == [MODE]
    assert "hosting" in end_of_log(settings, MODE)


def test_stopping_all_also_stops_what_waits_for_its_restart(settings) -> None:
    os.kill(start(settings, MODE).pid, signal.SIGKILL)
    wait_until_free(settings, MODE)
    [stopped] = launcher.stop_all(settings, "the machine is shut down")
    assert (stopped.mode, stopped.was_running) == (MODE, False)
    assert observe(settings, MODE).finding.health is Health.STOPPED


def test_stopping_all_also_stops_a_driver_in_a_terminal_whatever_its_name(settings) -> None:
    """It holds a lease, and has no desired state: `lockstep pipeline stream`."""
    script = (
        "import sys, signal; from lockstep.settings import Settings; "
        "from lockstep.supervise import lease; held = lease.acquire(Settings.load(), sys.argv[1]); "
        "print('held', flush=True); signal.pause()"
    )
    command = [sys.executable, "-c", script, "readings__temporal"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout.readline() == "held\n"
        assert launcher.stop_all(settings, "the machine is shut down") == []
        driver.wait(DEADLINE_SECONDS)
    assert lease.holder(settings, "readings__temporal") is None
    assert not desired_path(settings, "readings__temporal").exists()


def test_stopping_all_is_not_kept_from_it_by_a_damaged_desired_state(settings) -> None:
    os.kill(start(settings, MODE, OTHER).pid, signal.SIGKILL)
    for mode in (MODE, OTHER):
        wait_until_free(settings, mode)
    desired_path(settings, OTHER).write_text("{")
    stopped = launcher.stop_all(settings, "the machine is shut down")
    assert [(one.mode, one.was_running) for one in stopped] == [(MODE, False), (OTHER, False)]
    assert read_desired(settings, OTHER).state is DesiredState.STOPPED


def test_the_driver_leads_a_session_of_its_own_and_gets_no_secret_of_airflow(
    settings, monkeypatch
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", "secret")
    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "client")
    record = start(settings, MODE)
    assert os.getsid(record.pid) == record.pid
    environment = psutil.Process(record.pid).environ()
    assert not [name for name in environment if "AIRFLOW__" in name or name.startswith("_AIR")]
    assert environment["LOCKSTEP_HOME"] == str(settings.home)
    command = psutil.Process(record.pid).cmdline()
    assert command[1:] == [*launcher.DRIVER, "--mode", MODE]


def test_a_driver_inherits_the_passwords_that_it_uses_and_no_other(settings, monkeypatch) -> None:
    for name in Settings.model_fields:
        if name.endswith("_password"):
            monkeypatch.setenv(f"LOCKSTEP_{name.upper()}", f"canary-of-{name}")
    environment = psutil.Process(start(settings, MODE).pid).environ()
    inherited = {value for value in environment.values() if value.startswith("canary-of-")}
    used = ("batch_reader", "cdc", "kafka_reader", "connect")
    assert inherited == {f"canary-of-{name}_password" for name in used}


def test_a_driver_returns_memory_unless_the_environment_says_otherwise(
    settings, monkeypatch
) -> None:
    for name in ("ARROW_DEFAULT_MEMORY_POOL", "_RJEM_MALLOC_CONF"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MALLOC_ARENA_MAX", "8")
    environment = psutil.Process(start(settings, MODE).pid).environ()
    assert environment["ARROW_DEFAULT_MEMORY_POOL"] == "system"
    assert "narenas:1" in environment["_RJEM_MALLOC_CONF"]
    assert environment["MALLOC_ARENA_MAX"] == "8"


@pytest.mark.parametrize("end", ["", "_FILE"])
def test_a_driver_inherits_the_passwords_of_its_source_and_of_no_other(
    settings, monkeypatch, end
) -> None:
    source = settings.names.source.upper()
    for name in (source, "OTHER"):
        monkeypatch.setenv(f"LOCKSTEP_SOURCE_{name}_READ_PASSWORD{end}", "canary")
    environment = psutil.Process(start(settings, MODE).pid).environ()
    inherited = [name for name, value in environment.items() if value == "canary"]
    assert inherited == [f"LOCKSTEP_SOURCE_{source}_READ_PASSWORD{end}"]


def test_a_stopped_stream_ends_gracefully_and_says_so_last(settings) -> None:
    record = start(settings, MODE)
    [stopped] = launcher.stop(settings, [MODE], "enough")
    assert stopped == launcher.Stopped(MODE, was_running=True, killed=False)
    assert lease.holder(settings, MODE) is None
    assert read_heartbeat(settings, MODE).state is DriverState.STOPPED
    assert observe(settings, MODE).finding.why == "enough"
    deadline = time.monotonic() + DEADLINE_SECONDS
    while record.process() is not None:
        assert time.monotonic() < deadline


def test_stopping_what_does_not_run_just_notes_the_desired_state(settings) -> None:
    [stopped] = launcher.stop(settings, [MODE], "enough")
    assert not stopped.was_running
    assert read_desired(settings, MODE).state is DesiredState.STOPPED


def test_one_driver_hosts_several_modes_and_drops_one_without_touching_the_other(
    settings, starts
) -> None:
    record = start(settings, MODE, OTHER)
    launcher.stop(settings, [MODE], "enough")
    assert lease.holder(settings, MODE) is None
    assert observe(settings, OTHER).finding.health is Health.OK
    assert lease.holder(settings, OTHER) == record.pid
    start(settings, MODE)
    assert len(starts()) == 2
    assert lease.holder(settings, MODE) != record.pid


def test_a_running_stream_is_not_started_again(settings, starts) -> None:
    record = start(settings, MODE)
    with pytest.raises(StreamBusyError, match=f"pid {record.pid}"):
        start(settings, OTHER, MODE)
    assert starts() == [record.pid]
    assert read_desired(settings, OTHER) is None


def test_of_two_starts_at_once_one_wins_and_one_says_so(settings, starts, monkeypatch) -> None:
    both = threading.Barrier(2)
    spawn = launcher.process.spawn

    def together(*arguments):
        both.wait(DEADLINE_SECONDS)  # both have found the lease free
        return spawn(*arguments)

    monkeypatch.setattr(launcher.process, "spawn", together)
    with ThreadPoolExecutor(2) as pool:
        outcomes = [pool.submit(start, settings, MODE) for _ in range(2)]
    errors = [error for outcome in outcomes if (error := outcome.exception())]
    assert [type(error) for error in errors] == [StreamBusyError]
    assert errors[0].pid == lease.holder(settings, MODE)
    assert len(starts()) == 1
    assert observe(settings, MODE).finding.health is Health.OK


def test_a_driver_that_fails_at_its_start_is_reported_with_its_error(settings, behave) -> None:
    behave(MODE, "fail")
    with pytest.raises(StreamFailedError) as failure:
        start(settings, MODE)
    assert failure.value.why == "PoisonedRecordError: the record at offset 7 cannot be read"
    wait_until_free(settings, MODE)
    assert observe(settings, MODE).finding.health is Health.FAILED


def test_a_driver_that_dies_at_its_start_is_reported_with_the_end_of_its_log(
    settings, behave
) -> None:
    behave(MODE, "die")
    with pytest.raises(StreamFailedError, match=r"(?s)ended while it started.*about to die"):
        start(settings, MODE)


def test_a_driver_that_never_comes_to_work_is_ended_at_the_deadline(
    settings, behave, shorten_deadlines
) -> None:
    behave(MODE, "starting")
    shorten_deadlines()
    with pytest.raises(StreamFailedError, match="did not come to work within 5 s"):
        start(settings, MODE)
    assert lease.holder(settings, MODE) is None


def test_a_driver_that_reads_much_before_it_works_is_waited_for(
    settings, behave, shorten_deadlines
) -> None:
    behave(MODE, "reading")
    shorten_deadlines()
    read = threading.Timer(7.0, lambda: behave(MODE, "work"))
    read.start()
    record = start(settings, MODE)
    read.join()
    assert lease.holder(settings, MODE) == record.pid


def test_a_driver_that_does_not_obey_is_killed_at_the_deadline(
    settings, behave, shorten_deadlines
) -> None:
    behave(MODE, "deaf")
    record = start(settings, MODE)
    shorten_deadlines()
    [stopped] = launcher.stop(settings, [MODE], "enough")
    assert stopped.killed
    assert record.process() is None


def test_who_holds_a_mode_and_is_no_driver_is_not_killed(settings, shorten_deadlines) -> None:
    start(settings, MODE)
    launcher.stop(settings, [MODE], "is rebuilt")
    shorten_deadlines()
    with lease.acquire(settings, MODE), pytest.raises(StreamBusyError, match=str(os.getpid())):
        launcher.stop(settings, [MODE], "enough")


def test_a_dead_drivers_last_heartbeat_is_not_taken_for_the_new_ones(
    settings, behave, shorten_deadlines
) -> None:
    first = start(settings, MODE)
    os.kill(first.pid, signal.SIGKILL)
    wait_until_free(settings, MODE)
    assert observe(settings, MODE).finding.health is Health.DEAD
    behave(MODE, "starting")
    shorten_deadlines()
    with pytest.raises(StreamFailedError, match="did not come to work"):
        start(settings, MODE)
