"""What a run compares, how long it waits, and what a verdict means to Airflow."""

import asyncio
from datetime import UTC, datetime

import pytest
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowSkipException,
    TaskDeferred,
)
from lockstep.airflow_ops import parity
from lockstep.airflow_ops.parity import CompareWindowOperator, CutPassedTrigger
from lockstep.airflow_ops.spark_jobs import SparkJobOperator
from lockstep.contracts import REPAIR_DAG_ID, DifferenceClass, StreamMode, Verdict, Window
from lockstep.errors import StreamError
from lockstep.ledger import book
from lockstep.ledger.entries import Comparison
from lockstep.settings import Settings
from lockstep.supervise.desired import DesiredState, write_desired

HOUR = {"window_start": "2024-05-01T12:00:00+00:00", "window_end": "2024-05-01T13:00:00+00:00"}
WINDOW = Window.parse(*HOUR.values())


@pytest.fixture
def settings(tmp_path, monkeypatch) -> Settings:
    monkeypatch.setenv("LOCKSTEP_HOME", str(tmp_path))
    return Settings.load()


def line(verdict: Verdict, kind: DifferenceClass = DifferenceClass.VALUE_MISMATCH) -> Comparison:
    return Comparison(
        check_id="a check",
        window=WINDOW,
        mode=StreamMode.OUTBOX,
        verdict=verdict,
        reason="1 value_mismatch",
        run_id="a run",
        cut_snapshot="1:1:",
        cut_lsn=1,
        batch_version=1,
        stream_version=1,
        stream_frontier=2,
        orders_compared=3,
        definition="abc",
        checked_at=datetime.now(UTC),
        seconds=1.0,
        counts={kind: 1},
    )


@pytest.fixture
def compare(settings, monkeypatch):
    """Run the operator on a stream in one of these states, with a job that comes to a verdict."""

    def run(
        verdict: Verdict | None,
        *,
        kind: DifferenceClass = DifferenceClass.VALUE_MISMATCH,
        is_waiting: bool = False,
    ) -> None:
        def job(self, _context) -> None:
            assert self.application_args[-1] == "outbox"
            if verdict is not None:
                book.append(settings, line(verdict, kind), [])
            if verdict is not Verdict.PASS:
                raise AirflowException("the job ended with 1")

        monkeypatch.setattr(parity, "_is_waiting", lambda *_: is_waiting)
        monkeypatch.setattr(SparkJobOperator, "execute", job)
        arguments = parity.comparison_arguments(settings) | HOUR | {"mode": "outbox"}
        CompareWindowOperator(task_id="compare", **arguments).execute({})

    return run


@pytest.mark.parametrize(
    ("verdict", "raised"),
    [
        (Verdict.FAIL, AirflowFailException),
        (Verdict.NOT_COVERED, AirflowSkipException),
        (Verdict.WAITING, AirflowException),
    ],
)
def test_a_verdict_decides_how_the_task_ends(compare, verdict, raised):
    with pytest.raises(raised, match=r"outbox: .*1 value_mismatch"):
        compare(verdict)


def test_a_window_that_agrees_succeeds(compare):
    compare(Verdict.PASS)


def test_the_log_offers_the_repair_of_what_changed_after_the_cut(compare, capsys, monkeypatch):
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "http://airflow.example:8080/")
    compare(Verdict.PASS)
    assert REPAIR_DAG_ID not in capsys.readouterr().out
    compare(Verdict.PASS, kind=DifferenceClass.CHANGED_AFTER_CUT)
    log = capsys.readouterr().out
    assert f"http://airflow.example:8080/dags/{REPAIR_DAG_ID} with window_start" in log
    assert HOUR["window_end"] in log


def test_a_job_without_a_verdict_keeps_its_own_error_and_an_old_verdict_is_none(compare, settings):
    book.append(settings, line(Verdict.FAIL), [])
    with pytest.raises(AirflowException, match="the job ended with 1") as raised:
        compare(None)
    assert not isinstance(raised.value, AirflowFailException)


def test_a_stream_before_the_cut_is_waited_for_without_a_worker(compare):
    with pytest.raises(TaskDeferred) as deferred:
        compare(None, is_waiting=True)
    assert isinstance(deferred.value.trigger, CutPassedTrigger)
    assert deferred.value.method_name == "compare"


def test_the_trigger_fires_when_the_cut_is_passed_and_survives_errors(settings, monkeypatch):
    looks = [True, StreamError("Kafka is silent"), True, False]

    def look(*_):
        found = looks.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(parity, "_is_waiting", look)
    monkeypatch.setattr(parity, "POLL_SECONDS", 0.001)
    path, arguments = CutPassedTrigger(mode="outbox", **HOUR).serialize()
    assert path.endswith("airflow_ops.parity.CutPassedTrigger")

    async def first() -> object:
        return await anext(CutPassedTrigger(**arguments).run())

    asyncio.run(first())
    assert looks == []


def test_the_trigger_does_not_wait_for_ever(settings, monkeypatch):
    monkeypatch.setattr(parity, "_is_waiting", lambda *_: True)
    monkeypatch.setattr(parity, "POLL_SECONDS", 0.001)
    monkeypatch.setattr(parity, "WAIT_SECONDS_MAX", 0.01)

    async def first() -> object:
        return await anext(CutPassedTrigger(mode="outbox", **HOUR).run())

    asyncio.run(asyncio.wait_for(first(), timeout=10))


def test_each_written_window_is_compared_with_each_stream_that_is_to_run(settings):
    for mode, state in (("outbox", "running"), ("temporal", "running"), ("lookup", "stopped")):
        write_desired(settings, mode, DesiredState(state), "a test")
    later = {"window_start": HOUR["window_end"], "window_end": "2024-05-01T14:00:00+00:00"}
    found = parity.comparisons([HOUR, later, HOUR], "", "")
    assert found == [
        {"mode": mode, **window} for window in (HOUR, later) for mode in ("outbox", "temporal")
    ]
    assert parity.comparisons([], "2024-05-01T12Z", "2024-05-01T13Z") == found[:2]


def test_without_a_stream_there_is_nothing_to_compare(settings):
    with pytest.raises(AirflowSkipException):
        parity.comparisons([HOUR], "", "")


def test_a_window_that_is_none_is_said(settings):
    write_desired(settings, "outbox", DesiredState.RUNNING, "a test")
    with pytest.raises(AirflowFailException, match="not after its start"):
        parity.comparisons([], "2024-05-01T13Z", "2024-05-01T12Z")
