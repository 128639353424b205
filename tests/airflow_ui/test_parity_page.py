"""The page "Parity": what it shows of the ledger, to whom, and how quickly with a year of hours."""

import time
from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from fastapi import FastAPI
from fastapi.testclient import TestClient
from lockstep.airflow_names import DATA_DOCS_URL, PARITY_URL
from lockstep.airflow_ui import parity_page
from lockstep.ledger import book
from lockstep.ledger.entries import LEDGER_COLUMNS
from lockstep.model.modes import StreamMode
from lockstep.model.verdict import CheckStatus, Verdict
from lockstep.model.window import Window
from lockstep.pipeline.delta_types import arrow_schema
from lockstep.quality import CheckResult, QualityReport, data_docs
from lockstep.settings import Settings
from pizzeria.names import PARITY_LEDGER, REPAIR_DAG_ID

from tests.ledger.compared_hours import compared_hours, line

ROUTES = ["/", "/hour?mode=outbox&start=2024-05-01T12Z&end=2024-05-01T13Z", "/docs", "/x/y"]


@pytest.fixture
def settings(tmp_path) -> Settings:
    """Three hours of one mode, the last of which differs; the tables of that hour."""
    return compared_hours(tmp_path)


@pytest.fixture
def client_for(token_of):
    """A function from settings and role to a client of the app as Airflow mounts it."""

    def client(settings, role="viewer", *, signed_in=True):
        airflow = FastAPI()
        airflow.mount(PARITY_URL, parity_page.create_app(settings))
        cookies = {"_token": token_of(role)} if signed_in else {}
        return TestClient(airflow, cookies=cookies)

    return client


@pytest.mark.parametrize("route", ROUTES)
def test_anybody_not_signed_in_gets_401_on_every_route(client_for, settings, route):
    answer = client_for(settings, signed_in=False).get(PARITY_URL + route)
    assert answer.status_code == 401
    assert "outbox" not in answer.text


def test_a_user_without_a_role_is_refused(client_for, settings):
    assert client_for(settings, role=None).get(PARITY_URL + "/").status_code == 403


def test_the_overview_shows_each_mode_and_its_hours(client_for, settings):
    page = client_for(settings).get(PARITY_URL + "/")
    assert page.status_code == 200
    assert "<strong>outbox</strong>" in page.text
    assert "lookup" not in page.text.replace("the look-up", "")
    assert page.text.count('class="pass"') == 2
    assert "2024-05-01 12:00 to 13:00 UTC: differs, 1,234 rows; 1 dimension_drift" in page.text
    assert "2024-05-01 10:00" in page.text  # verified since
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "<script" not in page.text


@pytest.mark.parametrize("route", ROUTES[:2])
def test_a_project_without_a_pipeline_is_a_notice(client_for, settings, tmp_path, route):
    empty = settings.model_copy(update={"project": tmp_path / "empty"})
    page = client_for(empty).get(PARITY_URL + route)
    assert (page.status_code, "has no pipeline" in page.text) == (404, True)


def test_an_hour_lists_its_orders_worst_first_with_evidence(client_for, settings):
    client = client_for(settings)
    hour = client.get(PARITY_URL + ROUTES[1]).text
    assert hour.index("<strong>77</strong>") < hour.index("<strong>75</strong>")
    assert "pizzas 4: price 9.50 → 9.90 by transaction 719" in hour
    assert "&lt;b&gt;Ada&lt;/b&gt; | None" in hour
    assert "<b>Ada" not in hour
    assert hour.count("<circle") == 2
    assert "hourly run: median 1500.0 s, stream: median 0.4 s" in hour


def test_an_hour_offers_the_repair_of_what_changed_after_its_cut(client_for, settings):
    client = client_for(settings)
    assert REPAIR_DAG_ID not in client.get(PARITY_URL + ROUTES[1]).text
    newest = line(0, Verdict.PASS, changed_after_cut=3)
    newest = replace(newest, check_id="newest", checked_at=newest.checked_at + timedelta(hours=1))
    book.append(settings, newest, [])
    hour = client.get(PARITY_URL + ROUTES[1]).text
    assert "3 rows changed after the cut" in hour
    assert f'href="/dags/{REPAIR_DAG_ID}" target="_top"' in hour
    assert "<code>2024-05-01T12:00:00+00:00</code>" in hour


def test_an_hour_leads_to_the_checks_of_its_own_comparison_and_no_other(client_for, settings):
    client = client_for(settings)
    assert "Data Docs" not in client.get(PARITY_URL + ROUTES[1]).text
    compared = line(0, Verdict.FAIL)
    report_on(settings, compared.window, "another check")
    assert "Data Docs" not in client.get(PARITY_URL + ROUTES[1]).text
    report_on(settings, compared.window, compared.check_id)
    hour = client.get(PARITY_URL + ROUTES[1]).text
    assert f'href="{DATA_DOCS_URL}/a%20page.html"' in hour
    assert "</a>: warn" in hour


def report_on(settings: Settings, window: Window, check_id: str) -> None:
    """A report as the quality checks leave it."""
    found = CheckResult("op known", CheckStatus.WARN, CheckStatus.WARN, "9 changes", "c, u or d")
    docs = settings.home / "quality" / "data_docs"
    docs.mkdir(parents=True, exist_ok=True)
    report = QualityReport(
        *(window, "a run", 9, (found,), docs, "a%20page.html", 0.5, "outbox", "changes"), check_id
    )
    name = data_docs.run_name(window, "outbox")
    data_docs.add(docs.parent, report, [], (name, f"{time.time_ns()}"))


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("mode=temporal&start=2024-05-01T12Z&end=2024-05-01T13Z", 404),
        ("mode=outbox&start=2024-05-01T12Z&end=2024-05-01T11Z", 404),
        ("mode=outbox&start=yesterday&end=2024-05-01T11Z", 404),
        ("mode=nobody&start=2024-05-01T12Z&end=2024-05-01T13Z", 422),
    ],
)
def test_what_is_not_there_is_said(client_for, settings, query, status):
    answer = client_for(settings).get(f"{PARITY_URL}/hour?{query}")
    assert answer.status_code == status
    assert "Traceback" not in answer.text


def test_before_the_first_comparison_the_page_says_what_to_do(client_for, tmp_path):
    page = client_for(Settings(home=tmp_path)).get(PARITY_URL + "/").text
    assert "Nothing has been compared yet" in page
    assert "orders_enriched__outbox" in page


def test_a_year_of_hours_is_shown_quickly(client_for, tmp_path):
    """Not a measurement: only that a page of many orders does not hang."""
    settings = Settings(home=tmp_path)
    rows = [
        book.line_row(line(-hour, Verdict.PASS, mode))
        for hour in range(365 * 24)
        for mode in StreamMode
    ]
    table = pa.Table.from_pylist(rows, arrow_schema(LEDGER_COLUMNS))
    write_deltalake(settings.table_uri(PARITY_LEDGER), table)
    client = client_for(settings)
    client.get(PARITY_URL + "/")
    started = time.monotonic()
    page = client.get(PARITY_URL + "/").text
    seconds = time.monotonic() - started
    assert "2023-05-02 13:00" in page
    assert seconds < 10, f"{seconds:.1f} s"
    print(f"a year of hours: {seconds:.2f} s")  # noqa: T201
