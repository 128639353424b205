"""The page "Parity": what it shows of the ledger, to whom, and how quickly with a year of hours."""

import re
import shutil
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
from lockstep.supervise.desired import DesiredState, write_desired
from pizzeria.names import MANIFEST, PARITY_LEDGER, REPAIR_DAG_ID

from tests.ledger.compared_hours import compared_hours, line
from tests.project import PROJECT_DIR

PIPELINES = ("orders_again", "orders_enriched", "orders_wrong")
OWN = f"{PARITY_URL}/of/{MANIFEST}/"
"""The page of the project's own pipeline."""
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
    page = client_for(settings).get(OWN)
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
    assert "hourly run: median 1500.0 s, outbox: median 0.4 s" in hour


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


def test_an_hour_leads_to_the_log_of_the_task_that_compared_it(client_for, settings):
    client = client_for(settings)
    assert "the task's log" not in client.get(PARITY_URL + ROUTES[1]).text
    log = "/dags/p/runs/a%2B1/tasks/compare/mapped/0?try_number=2"
    newest = line(0, Verdict.PASS)
    later = newest.checked_at + timedelta(hours=1)
    book.append(settings, replace(newest, check_id="newest", checked_at=later, task_log=log), [])
    assert f'href="{log}" target="_top"' in client.get(PARITY_URL + ROUTES[1]).text


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
    subject = "orders_enriched__outbox"
    checked = (window, "a run", 9, (found,), docs, "a%20page.html", 0.5, subject, "changes")
    report = QualityReport(*checked, check_id)
    name = data_docs.run_name(window, subject)
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
    page = client_for(Settings(home=tmp_path)).get(OWN).text
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
    client.get(OWN)
    started = time.monotonic()
    page = client.get(OWN).text
    seconds = time.monotonic() - started
    assert "2023-05-02 13:00" in page
    assert seconds < 10, f"{seconds:.1f} s"
    print(f"a year of hours: {seconds:.2f} s")  # noqa: T201


@pytest.fixture
def several(settings, tmp_path) -> Settings:
    """The same in a project of three pipelines, of which one was compared and one is broken."""
    project = tmp_path / "project"
    for folder in ("include/sql/orders_enriched", "include/sources/pizzeria"):
        shutil.copytree(PROJECT_DIR / folder, project / folder)
    folder = project / "include" / "sql"
    for name in ("orders_again", "orders_wrong"):
        shutil.copytree(folder / "orders_enriched", folder / name)
    wrong = folder / "orders_wrong" / "pipeline.toml"
    wrong.write_text(wrong.read_text().replace('fact = "orders"', 'fact = "order"'))
    return settings.model_copy(update={"project": project, "pipeline": "orders_enriched"})


def test_the_first_page_has_a_line_for_each_pipeline_also_for_a_broken_one(client_for, several):
    write_desired(several, "outbox", DesiredState.STOPPED, "a test")
    page = client_for(several).get(PARITY_URL + "/").text
    places = [page.index(f"<strong>{name}</strong>") for name in PIPELINES]
    assert places == sorted(places)
    enriched, broken = page[places[1] : places[2]], page[places[2] :]
    assert "✗ differs" in enriched
    assert "stopped" in enriched
    assert "2024-05-01 12:00 to 13:00 UTC" in enriched
    assert "✗ differs" not in page[: places[1]]
    assert "never started" in page[: places[1]]
    assert "include/sql/orders_wrong/pipeline.toml:5: fact: source pizzeria has no table" in broken
    assert f'href="{PARITY_URL}/of/orders_again/"' in page
    assert "<script" not in page


def test_each_pipeline_has_pages_of_its_own_that_lead_to_one_another(client_for, several):
    client = client_for(several)
    page = client.get(f"{PARITY_URL}/of/orders_enriched/").text
    assert "2024-05-01 12:00 to 13:00 UTC: differs, 1,234 rows" in page
    assert f'href="{PARITY_URL}/"' in page
    links = re.findall(rf'href="({PARITY_URL}/of/orders_enriched/hour[^"]*)"', page)
    hour = next(link for link in links if "start=2024-05-01T12" in link)
    shown = client.get(hour.replace("&amp;", "&"))
    assert (shown.status_code, "<strong>77</strong>" in shown.text) == (200, True)
    assert f'href="{PARITY_URL}/of/orders_enriched/"' in shown.text
    other = client.get(f"{PARITY_URL}/of/orders_again/").text
    assert "Nothing has been compared yet" in other
    wrong = client.get(f"{PARITY_URL}/of/orders_wrong/")
    assert (wrong.status_code, "has no table" in wrong.text) == (404, True)
    assert client.get(f"{PARITY_URL}/of/nothing/").status_code == 404


def test_who_is_not_signed_in_sees_no_pipeline(client_for, several):
    for route in ("/", "/of/orders_enriched/"):
        answer = client_for(several, signed_in=False).get(PARITY_URL + route)
        assert (answer.status_code, "orders_enriched" in answer.text) == (401, False)
