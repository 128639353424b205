"""What is done about the states that Kafka Connect tells of the connector."""

import pytest
from lockstep.capture import connector
from lockstep.capture.connectors import Connector, connector_of
from lockstep.errors import ServiceError
from lockstep.settings import Settings


class Worker:
    """Tells these states of the connector and its task; a restart makes both run."""

    def __init__(self, *states: str) -> None:
        self.states = list(states)
        self.restarts: list[str] = []

    def get(self, _settings: Settings, _connector: Connector, what: str) -> dict:
        assert what == "status"
        first, *tasks = [{"state": state} for state in self.states]
        return {"connector": first, "tasks": tasks}

    def send(self, _settings: Settings, _connector: Connector, method: str, what: str) -> None:
        self.restarts.append(f"{method} {what}")
        self.states = ["RUNNING", "RUNNING"]


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Worker:
    worker = Worker(*request.param)
    monkeypatch.setattr(connector, "_get", worker.get)
    monkeypatch.setattr(connector, "_send", worker.send)
    monkeypatch.setattr(connector, "POLL_SECONDS", 0.001)
    monkeypatch.setattr(connector, "UNASSIGNED_SECONDS_MAX", 0.01)
    monkeypatch.setattr(connector, "RUNNING_SECONDS_MAX", 0.1)
    return worker


@pytest.mark.parametrize("worker", [("UNASSIGNED", "RUNNING")], indirect=True)
def test_a_state_that_stays_unassigned_is_written_again_by_one_restart(worker: Worker) -> None:
    connector._wait_until_running(Settings(), connector_of(Settings()))
    assert worker.restarts == ["POST restart?includeTasks=true&onlyFailed=false"]


@pytest.mark.parametrize("worker", [("RUNNING", "RUNNING")], indirect=True)
def test_one_that_runs_is_left_alone(worker: Worker) -> None:
    connector._wait_until_running(Settings(), connector_of(Settings()))
    assert worker.restarts == []


@pytest.mark.parametrize("worker", [("RUNNING", "FAILED"), ("RUNNING",)], indirect=True)
def test_one_that_does_not_come_to_run_is_said(worker: Worker) -> None:
    with pytest.raises(ServiceError, match="lockstep logs connect"):
        connector._wait_until_running(Settings(), connector_of(Settings()), seconds_max=1.0)
    assert worker.restarts == []


@pytest.mark.parametrize("worker", [("RUNNING", "FAILED")], indirect=True)
def test_one_that_is_being_restarted_may_still_be_reported_as_failed(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connect takes the order, and carries it out after the next question for its states."""
    answers = iter([["RUNNING", "FAILED"]] * 5)

    def soon_restarted(_settings: Settings, _connector: Connector, what: str) -> dict:
        worker.states = next(answers, ["RUNNING", "RUNNING"])
        return Worker.get(worker, _settings, _connector, what)

    monkeypatch.setattr(connector, "_get", soon_restarted)
    connector._wait_until_running(Settings(), connector_of(Settings()), failed_seconds_max=5.0)
    assert next(answers, None) is None


@pytest.mark.parametrize("worker", [("RUNNING", "FAILED")], indirect=True)
def test_one_that_fails_again_after_its_restart_is_said(worker: Worker) -> None:
    with pytest.raises(ServiceError, match="lockstep logs connect"):
        connector._wait_until_running(Settings(), connector_of(Settings()), failed_seconds_max=0.02)
