"""Who waits for the table is sent only windows that passed, with what was found."""

import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowFailException
from lockstep import quality
from lockstep.airflow_ops.assets import hourly_asset
from lockstep.airflow_ops.quality_gate import CheckQualityOperator, DataDocsLink
from lockstep.errors import WindowNotWrittenError
from lockstep.model.verdict import CheckStatus
from lockstep.model.window import Window
from lockstep.pipeline.errors import PipelineError
from lockstep.quality import CheckResult, QualityReport
from pizzeria.names import NAMES

SITE = "http://airflow.example:8080/lockstep/data-docs"
START = datetime(2015, 1, 1, 11, tzinfo=UTC)
WINDOW = Window(START, START + timedelta(hours=1))
PAGE = "validations/orders/a%20page.html"


@pytest.fixture(autouse=True)
def address(monkeypatch):
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "http://airflow.example:8080/")


def result(status: CheckStatus) -> CheckResult:
    return CheckResult(
        name="client known",
        status=status,
        severity=CheckStatus.FAIL,
        observed="1 of 41 orders",
        expected="known in every order",
        examples=("7",),
    )


HOURLY_TABLE = hourly_asset(NAMES)


BOUNDS = {"window_start": "2015-01-01T11Z", "window_end": "2015-01-01T12Z"}


def gate(monkeypatch, outcome, **bounds):
    """Run the task on a window whose check has this outcome; returns operator and asset event."""

    def check_window(settings, window):
        assert window == WINDOW
        if isinstance(outcome, Exception):
            raise outcome
        return QualityReport(
            window=window,
            run_id="run-1",
            rows=41,
            checks=(result(CheckStatus.PASS), result(outcome)),
            data_docs=Path("anywhere"),
            data_docs_page=PAGE,
            seconds=1.0,
        )

    monkeypatch.setattr(quality, "check_window", check_window)
    operator = CheckQualityOperator(
        task_id="check_quality", outlets=[HOURLY_TABLE], **BOUNDS | bounds
    )
    event = SimpleNamespace(extra={})
    error = None
    try:
        operator.execute({"outlet_events": {HOURLY_TABLE: event}})
    except AirflowFailException as failure:
        error = failure
    return operator, event, error


def test_a_window_that_passes_is_announced_with_what_it_is(monkeypatch):
    _, event, error = gate(monkeypatch, CheckStatus.PASS)
    assert error is None
    assert event.extra == {
        "window_start": "2015-01-01T11:00:00+00:00",
        "window_end": "2015-01-01T12:00:00+00:00",
        "run_id": "run-1",
        "rows": 41,
        "status": "pass",
        "warnings": [],
        "data_docs": f"{SITE}/{PAGE}",
    }


def test_a_named_window_that_is_none_fails_without_retry(monkeypatch):
    _, _, error = gate(monkeypatch, CheckStatus.PASS, window_start="soon", window_end="later")
    assert "is not an ISO 8601 time" in str(error)


def test_warnings_are_logged_and_announced_and_do_not_fail(monkeypatch, caplog):
    with caplog.at_level(logging.INFO):
        _, event, error = gate(monkeypatch, CheckStatus.WARN)
    assert error is None
    assert event.extra["status"] == "warn"
    assert event.extra["warnings"] == [
        "client known: 1 of 41 orders (7); expected known in every order"
    ]


def test_a_failed_check_fails_without_retry_says_why_and_announces_nothing(monkeypatch):
    operator, event, error = gate(monkeypatch, CheckStatus.FAIL)
    assert isinstance(error, AirflowFailException)
    for words in (str(WINDOW), "client known: 1 of 41 orders", PAGE):
        assert words in str(error)
    assert event.extra == {}
    link = DataDocsLink().get_link(operator, ti_key=None)
    assert link == f"{SITE}/{PAGE}"


def test_a_window_that_was_not_written_fails_without_retry(monkeypatch):
    _, event, error = gate(monkeypatch, WindowNotWrittenError("no run replaced the window"))
    assert "no run replaced" in str(error)
    assert event.extra == {}


def test_checks_that_cannot_be_used_fail_without_retry(monkeypatch):
    _, event, error = gate(monkeypatch, PipelineError("checks.toml:3: is wrong"))
    assert str(error) == "checks.toml:3: is wrong"
    assert event.extra == {}


def test_the_link_of_a_task_that_never_checked_leads_to_all_windows():
    operator = CheckQualityOperator(task_id="check_quality", **BOUNDS)
    assert DataDocsLink().get_link(operator, ti_key=None) == f"{SITE}/"


def test_without_a_known_address_links_stay_within_the_same_server(monkeypatch):
    monkeypatch.delenv("AIRFLOW__API__BASE_URL")
    operator = CheckQualityOperator(task_id="check_quality", **BOUNDS)
    assert DataDocsLink().get_link(operator, ti_key=None) == "/lockstep/data-docs/"
