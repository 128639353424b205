"""What a run compares, how long it waits, and what a verdict means to Airflow."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowSkipException,
    TaskDeferred,
)
from lockstep import quality
from lockstep.airflow_ops import parity
from lockstep.airflow_ops.parity import CompareWindowOperator, CutPassedTrigger
from lockstep.airflow_ops.quality_gate import DataDocsLink
from lockstep.airflow_ops.spark_jobs import SparkJobOperator
from lockstep.errors import StreamError
from lockstep.ledger import book
from lockstep.ledger.entries import Comparison
from lockstep.model.modes import StreamMode
from lockstep.model.verdict import CheckStatus, DifferenceClass, Verdict
from lockstep.model.window import Window
from lockstep.quality import CheckResult, QualityReport
from lockstep.quality.errors import QualityStoreError
from lockstep.settings import Settings
from lockstep.supervise.desired import DesiredState, write_desired
from pizzeria.names import REPAIR_DAG_ID

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


def report(suite: str, status: CheckStatus) -> QualityReport:
    found = CheckResult("op known", status, status, "all but 1 of 9", "c, u or d", (), suite)
    return QualityReport(
        WINDOW, "a run", 9, (found,), Path("docs"), "a%20page.html", 1.0, "outbox", "changes"
    )


PASSED = report("change_log", CheckStatus.PASS)
LOG_PAGE = "/dags/orders_enriched__parity/runs/a%2B1/tasks/compare/mapped/0?try_number=2"
TASK = SimpleNamespace(log_url=f"https://airflow.example:8443{LOG_PAGE}")


@pytest.fixture
def compare(settings, monkeypatch):
    """Run the operator on a stream in one of these states, with a job that comes to a verdict.

    checked: what the quality checks come to, or what they raise. Returns the operator and which
    lines were checked.
    """

    def run(
        verdict: Verdict | None,
        *,
        kind: DifferenceClass = DifferenceClass.VALUE_MISMATCH,
        is_waiting: bool = False,
        checked=PASSED,
    ):
        def job(self, _context) -> None:
            assert self.application_args[-4:] == ["--task-log", LOG_PAGE, "--mode", "outbox"]
            if verdict is not None:
                book.append(settings, line(verdict, kind), [])
            if verdict is not Verdict.PASS:
                raise AirflowException("the job ended with 1")

        def check_stream(_settings, of) -> QualityReport:
            asked.append(of.verdict)
            if isinstance(checked, Exception):
                raise checked
            return checked

        asked: list[Verdict] = []
        monkeypatch.setattr(parity, "_is_waiting", lambda *_: is_waiting)
        monkeypatch.setattr(SparkJobOperator, "execute", job)
        monkeypatch.setattr(quality, "check_stream", check_stream)
        arguments = parity.comparison_arguments(settings) | HOUR | {"mode": "outbox"}
        operator = CompareWindowOperator(task_id="compare", **arguments)
        error = None
        try:
            operator.execute({"ti": TASK})
        except AirflowException as raised:
            error = raised
        return operator, asked, error

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
    _, _, error = compare(verdict)
    assert type(error) is raised
    assert f"outbox: {verdict}: 1 value_mismatch" in str(error)


def test_a_window_that_agrees_succeeds(compare):
    _, _, error = compare(Verdict.PASS)
    assert error is None


@pytest.mark.parametrize("verdict", [Verdict.PASS, Verdict.FAIL])
def test_whatever_the_verdict_it_is_in_the_data_docs_and_the_log_says_where(
    compare, verdict, capsys
):
    operator, asked, _ = compare(verdict)
    assert asked == [verdict]
    link = DataDocsLink().get_link(operator, ti_key=None)
    assert link.endswith("/lockstep/data-docs/a%20page.html")
    assert f"Data Docs: {link}" in capsys.readouterr().out


@pytest.mark.parametrize("verdict", [Verdict.WAITING, Verdict.NOT_COVERED])
def test_what_was_not_compared_is_not_checked(compare, verdict):
    _, asked, _ = compare(verdict)
    assert asked == []


def test_a_table_that_breaks_its_rules_fails_the_task_though_all_orders_agree(compare):
    _, _, error = compare(Verdict.PASS, checked=report("change_log", CheckStatus.FAIL))
    assert type(error) is AirflowFailException
    for words in (str(WINDOW), "op known: all but 1 of 9", "a%20page.html"):
        assert words in str(error)


def test_a_verdict_is_raised_before_what_else_is_wrong(compare):
    broken = report("change_log", CheckStatus.FAIL)
    for checked in (broken, report("parity", CheckStatus.FAIL), QualityStoreError("no room")):
        _, _, error = compare(Verdict.FAIL, checked=checked)
        assert type(error) is AirflowFailException
        assert "1 value_mismatch" in str(error)


def test_a_warning_is_logged_and_lets_the_task_succeed(compare, capsys):
    _, _, error = compare(Verdict.PASS, checked=report("change_log", CheckStatus.WARN))
    assert error is None
    assert "1 checks of 9 changes: warn: op known" in capsys.readouterr().out


def test_checks_that_could_not_be_made_are_tried_again(compare):
    _, _, error = compare(Verdict.PASS, checked=QualityStoreError("no room"))
    assert type(error) is AirflowException
    assert "no room" in str(error)


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
    _, asked, error = compare(None)
    assert type(error) is AirflowException
    assert "the job ended with 1" in str(error)
    assert asked == []


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
    found = parity.comparisons("", [HOUR, later, HOUR], "", "")
    assert found == [
        {"mode": mode, **window} for window in (HOUR, later) for mode in ("outbox", "temporal")
    ]
    assert parity.comparisons("", [], "2024-05-01T12Z", "2024-05-01T13Z") == found[:2]


def test_without_a_stream_there_is_nothing_to_compare(settings):
    with pytest.raises(AirflowSkipException):
        parity.comparisons("", [HOUR], "", "")


def test_a_window_that_is_none_is_said(settings):
    write_desired(settings, "outbox", DesiredState.RUNNING, "a test")
    with pytest.raises(AirflowFailException, match="not after its start"):
        parity.comparisons("", [], "2024-05-01T13Z", "2024-05-01T12Z")


@pytest.fixture
def tasks(settings, monkeypatch):
    """The tasks of one run of the DAG, each with what its job was asked for; jobs pass.

    waiting: the modes whose streams have not passed the cut.
    """
    asked: list[list[str]] = []
    waiting: set[str] = set()

    def job(self, _context) -> None:
        modes = self.application_args[7::2]
        asked.append(modes)
        for mode in modes:
            book.append(settings, replace(line(Verdict.PASS), mode=StreamMode(mode)), [])

    monkeypatch.setattr(parity, "_is_waiting", lambda _settings, _window, mode: mode in waiting)
    monkeypatch.setattr(SparkJobOperator, "execute", job)
    monkeypatch.setattr(quality, "check_stream", lambda *_: PASSED)
    for mode in ("outbox", "temporal", "lookup"):
        write_desired(settings, mode, DesiredState.RUNNING, "a test")
    began = datetime.now(UTC)

    def run(mode: str, *, began_at: datetime = began) -> None:
        arguments = parity.comparison_arguments(settings) | HOUR | {"mode": mode}
        operator = CompareWindowOperator(task_id="compare", **arguments)
        operator.compare({"ti": TASK, "dag_run": SimpleNamespace(start_date=began_at)})

    return run, asked, waiting


def test_the_first_task_of_a_window_compares_all_modes_in_one_session(tasks) -> None:
    run, asked, _ = tasks
    for mode in ("lookup", "outbox", "temporal"):
        run(mode)
    assert asked == [["lookup", "outbox", "temporal"]]


def test_a_mode_that_has_not_passed_the_cut_keeps_no_other_waiting(tasks) -> None:
    run, asked, waiting = tasks
    waiting.add("temporal")
    run("outbox")
    run("lookup")
    waiting.clear()
    run("temporal")
    assert asked == [["outbox", "lookup"], ["temporal"]]


def test_another_run_of_the_dag_compares_again(tasks) -> None:
    run, asked, _ = tasks
    run("outbox")
    run("outbox", began_at=datetime.now(UTC))
    assert asked == [["outbox", "lookup", "temporal"], ["outbox", "lookup", "temporal"]]


def test_a_comparison_that_had_to_wait_is_made_again_by_its_retry(tasks, settings) -> None:
    run, asked, _ = tasks
    book.append(settings, line(Verdict.WAITING), [])
    run("outbox")
    assert asked == [["outbox", "lookup", "temporal"]]
