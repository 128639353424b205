"""What `up`, `down` and `status` do, with services of our own that are small Python programs."""

import fcntl
import os
import signal
import socket
import sys
import time
from pathlib import Path

import psycopg
import pytest
from lockstep.devstack import control
from lockstep.devstack.service import State
from lockstep.errors import ServiceError
from lockstep.host import process
from lockstep.host.files import bounded_log, log_path
from lockstep.host.ports import Port
from lockstep.settings import Settings


class FakeService:
    """A program that listens nowhere; it answers as soon as its file `answers` is there."""

    ready_seconds_max = 5.0
    stop_signal = signal.SIGTERM
    stop_seconds_max = 5.0

    def __init__(self, name: str, needs: tuple[str, ...] = (), program: str = "") -> None:
        self.name, self.needs = name, needs
        self.program = program or "import time; time.sleep(60)"
        self.answers = True
        self.launches: list[float] = []
        self.listens_on: list[Port] = []

    def address(self, settings: Settings) -> str:
        return f"{self.name}:1"

    def ports(self, settings: Settings) -> list[Port]:
        return self.listens_on

    def launch(self, settings: Settings) -> process.Launch:
        self.launches.append(time.monotonic())
        return process.Launch(
            [sys.executable, "-c", self.program],
            bounded_log(settings.home, self.name),
            os.environ,
            settings.home,
        )

    def problem(self, settings: Settings) -> str | None:
        return None if self.answers else "silence"

    def trouble(self, settings: Settings) -> str | None:
        return None

    def finish(self, settings: Settings) -> None:
        return


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home")


@pytest.fixture
def services(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> dict[str, FakeService]:
    """Database, broker and, needing both, worker; whatever a test left running is ended."""
    all_services = (
        FakeService("database"),
        FakeService("broker"),
        FakeService("worker", needs=("database", "broker")),
    )
    monkeypatch.setattr(control, "SERVICES", all_services)
    monkeypatch.setattr(control, "GROUPS", {"both": ("database", "broker")})
    yield {one.name: one for one in all_services}
    control.down(settings)


def states(settings: Settings) -> dict[str, State]:
    return {one.service: one.state for one in control.statuses(settings)}


def kill(settings: Settings, name: str) -> None:
    record = process.read_record(settings.home, name)
    os.kill(record.pid, signal.SIGKILL)
    deadline = time.monotonic() + 5
    while record.process() is not None:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_service_starts_after_those_it_needs(settings: Settings, services: dict) -> None:
    control.up(settings)
    assert set(states(settings).values()) == {State.RUNNING}
    assert services["worker"].launches[0] > services["database"].launches[0]
    assert services["worker"].launches[0] > services["broker"].launches[0]


def test_the_second_up_launches_nothing(settings: Settings, services: dict) -> None:
    control.up(settings)
    outcomes: list[control.Outcome] = []
    control.up(settings, progress=outcomes.append)
    assert [outcome.acted for outcome in outcomes] == [False] * 3
    assert [len(one.launches) for one in services.values()] == [1, 1, 1]


def test_a_broker_of_before_there_were_passwords_is_started_again_with_its_clients(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = (FakeService("kafka"), FakeService("connect", needs=("kafka",)), FakeService("other"))
    monkeypatch.setattr(control, "SERVICES", older)
    for one in older:
        settings.home.mkdir(exist_ok=True)
        (settings.home / "run").mkdir(exist_ok=True)
        process.start(settings.home, one.name, one.launch(settings))
    try:
        complete = control.up(settings, ["other"])
        assert set(states(settings).values()) == {State.RUNNING}
        assert [len(one.launches) for one in older] == [2, 2, 1]
        control.up(complete)
        assert [len(one.launches) for one in older] == [2, 2, 1]
    finally:
        control.down(settings)


def test_a_port_that_is_not_free_is_named_before_anything_starts(
    settings: Settings, services: dict
) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as one,
        socket.create_server(("127.0.0.1", 0)) as two,
    ):
        for listener, name in ((one, "broker"), (two, "worker")):
            port = listener.getsockname()[1]
            services[name].listens_on = [Port("127.0.0.1", port, "A_HOST", f"PORT_OF_{name}")]
        with pytest.raises(ServiceError) as refused:
            control.up(settings)
        assert set(states(settings).values()) == {State.STOPPED}
        for name in ("broker", "worker"):
            assert f"PORT_OF_{name}" in str(refused.value)
    control.up(settings)
    assert set(states(settings).values()) == {State.RUNNING}


def test_a_service_that_runs_has_its_port(settings: Settings, services: dict) -> None:
    control.up(settings)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        services["broker"].listens_on = [Port("127.0.0.1", port, "A_HOST", "A_PORT")]
        control.up(settings)


def test_only_starts_a_service_and_what_it_needs(settings: Settings, services: dict) -> None:
    control.up(settings, ["broker"])
    assert states(settings) == {
        "database": State.STOPPED,
        "broker": State.RUNNING,
        "worker": State.STOPPED,
    }
    control.up(settings, ["worker"])
    assert set(states(settings).values()) == {State.RUNNING}


def test_a_group_names_several(settings: Settings, services: dict) -> None:
    control.up(settings, ["both"])
    assert states(settings)["worker"] is State.STOPPED
    assert states(settings)["database"] is State.RUNNING


def test_an_unknown_service_is_refused_with_those_there_are(
    settings: Settings, services: dict
) -> None:
    with pytest.raises(ServiceError, match="no service kafak; there are: database, broker, worker"):
        control.up(settings, ["kafak"])
    assert not settings.home.exists()


def test_a_crashed_service_is_named_and_alone_started_again(
    settings: Settings, services: dict
) -> None:
    control.up(settings)
    kill(settings, "broker")
    assert states(settings)["broker"] is State.CRASHED
    assert any(one.wrong for one in control.statuses(settings))
    control.up(settings)
    assert set(states(settings).values()) == {State.RUNNING}
    assert {name: len(one.launches) for name, one in services.items()} == {
        "database": 1,
        "broker": 2,
        "worker": 1,
    }


def test_a_service_that_runs_but_is_silent_is_not_running(
    settings: Settings, services: dict
) -> None:
    control.up(settings)
    services["broker"].answers = False
    assert states(settings)["broker"] is State.NOT_ANSWERING
    services["broker"].ready_seconds_max = 0.2
    with pytest.raises(ServiceError, match=r"broker does not answer after 0 s \(silence\)"):
        control.up(settings)


def test_a_service_that_ends_at_its_start_is_reported_with_the_end_of_its_log(
    settings: Settings, services: dict
) -> None:
    services["broker"].program = "print('no disk'); raise SystemExit(3)"
    services["broker"].answers = False
    with pytest.raises(ServiceError, match=r"(?s)broker ended after .*\nno disk"):
        control.up(settings)
    assert states(settings) == {
        "database": State.RUNNING,  # what does not need it is up all the same
        "broker": State.CRASHED,
        "worker": State.STOPPED,
    }


def test_a_service_that_ends_while_it_is_waited_for_is_started_again(
    settings: Settings, services: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that lost its database ends late: `up` may still find it alive."""
    control.up(settings)
    broker = services["broker"]

    def ends_at_the_first_question(settings: Settings) -> str | None:
        if len(broker.launches) == 1:
            kill(settings, "broker")
            return "silence"
        return None

    monkeypatch.setattr(broker, "problem", ends_at_the_first_question)
    control.up(settings)
    assert len(broker.launches) == 2
    assert states(settings)["broker"] is State.RUNNING


def test_a_service_that_has_ended_does_not_answer_whatever_its_probe_says(
    settings: Settings, services: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scheduler's heartbeat, for one, is fresh when it has ended at its start."""
    broker = services["broker"]

    def ends_and_seems_to_answer(settings: Settings) -> None:
        kill(settings, "broker")

    monkeypatch.setattr(broker, "problem", ends_and_seems_to_answer)
    with pytest.raises(ServiceError, match="broker ended after 0 s"):
        control.up(settings)


def test_a_database_lost_during_a_start_is_reported_by_service(
    settings: Settings, services: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_lost(settings: Settings) -> None:
        raise psycopg.OperationalError("connection refused")

    monkeypatch.setattr(services["worker"], "finish", is_lost)
    with pytest.raises(ServiceError, match="worker cannot be started: connection refused"):
        control.up(settings)


def test_every_failure_is_reported(settings: Settings, services: dict) -> None:
    for name in ("database", "broker"):
        services[name].program = "raise SystemExit(1)"
        services[name].answers = False
    with pytest.raises(ServiceError, match=r"(?s)database ended .*broker ended"):
        control.up(settings)


def test_down_stops_everything_and_forgets_it(settings: Settings, services: dict) -> None:
    control.up(settings)
    records = [process.read_record(settings.home, name) for name in services]
    outcomes: list[control.Outcome] = []
    control.down(settings, outcomes.append)
    assert [record.process() for record in records] == [None] * 3
    assert set(states(settings).values()) == {State.STOPPED}
    assert outcomes[0].service == "worker"


def test_down_forgets_a_crashed_service_too(settings: Settings, services: dict) -> None:
    control.up(settings, ["database"])
    kill(settings, "database")
    control.down(settings)
    assert states(settings)["database"] is State.STOPPED


def test_two_commands_at_once_are_refused(settings: Settings, services: dict) -> None:
    control.up(settings)
    with (settings.home / "run" / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(ServiceError, match=rf"another .* \(pid {os.getpid()}\) is at work"):
            control.up(settings)


def test_a_home_that_cannot_be_made_is_named(tmp_path: Path, services: dict) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ServiceError, match=r"cannot be written: .*; set LOCKSTEP_HOME"):
        control.up(Settings(home=tmp_path / "file" / "home"))


def test_a_log_has_what_the_service_printed(settings: Settings, services: dict) -> None:
    services["database"].program = "print('hello', flush=True); import time; time.sleep(60)"
    control.up(settings, ["database"])
    deadline = time.monotonic() + 5
    while "hello" not in log_path(settings.home, "database").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_real_services_stand_after_what_they_need() -> None:
    names = control.service_names()
    for one in control.SERVICES:
        assert all(names.index(needed) < names.index(one.name) for needed in one.needs)
