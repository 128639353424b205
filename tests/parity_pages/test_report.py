"""The report as a file: all hours and their differing orders, and nothing else is needed."""

import re

import pytest
from lockstep.cli import app
from lockstep.errors import LakehouseError
from lockstep.ledger import book
from lockstep.ledger.entries import Difference
from lockstep.model.modes import StreamMode
from lockstep.model.verdict import DifferenceClass, Verdict
from lockstep.model.window import Window
from lockstep.parity_pages import view
from lockstep.parity_pages.render import render
from lockstep.parity_pages.report import report
from lockstep.settings import Settings
from typer.testing import CliRunner

from tests.ledger.compared_hours import compared_hours, line
from tests.parity.parcels import parcels


@pytest.fixture
def settings(tmp_path) -> Settings:
    return compared_hours(tmp_path)


def test_every_hour_is_there_newest_first_and_every_link_leads_to_one(settings) -> None:
    page = report(settings)
    anchors = re.findall(r'<section id="(outbox-[^"]+)"', page)
    assert anchors == [
        f"outbox-20240501T{hour}0000-20240501T{hour + 1}0000" for hour in (12, 11, 10)
    ]
    links = set(re.findall(r'href="([^"]*)"', page))
    assert links == {"#", *(f"#{anchor}" for anchor in anchors)}


def test_it_has_the_orders_that_differ_with_evidence(settings) -> None:
    page = report(settings)
    assert page.index("<strong>77</strong>") < page.index("<strong>75</strong>")
    assert "pizzas 4: price 9.50 → 9.90 by transaction 719" in page
    assert "&lt;b&gt;Ada&lt;/b&gt; | None" in page
    assert "<b>Ada" not in page
    assert "hourly run: median 1500.0 s, outbox: median 0.4 s" in page


def test_it_needs_nothing_else(settings) -> None:
    page = report(settings)
    assert page.count("<html") == page.count("<style") == page.count("</body>") == 1
    for what in ("<script", "<link", "src=", "url(", "http-equiv", "renews itself"):
        assert what not in page


def test_bounds_choose_the_hours(settings) -> None:
    page = report(settings, Window.parse("2024-05-01T10:00Z", "2024-05-01T12:00Z"))
    assert "2024-05-01 10:00 to 12:00 UTC" in page
    assert re.findall(r'<section id="outbox-20240501T(\d\d)', page) == ["11", "10"]
    assert "<strong>77</strong>" not in page


def test_without_a_comparison_it_is_refused(settings, tmp_path) -> None:
    with pytest.raises(LakehouseError, match="nothing was compared yet"):
        report(Settings(home=tmp_path / "another"))
    with pytest.raises(LakehouseError, match=r"nothing of \[2023.* was compared"):
        report(settings, Window.parse("2023-05-01T10:00Z", "2023-05-01T12:00Z"))


def test_the_command_writes_the_file_and_says_where(settings, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("LOCKSTEP_HOME", str(settings.home))
    file = tmp_path / "parity.html"
    answer = CliRunner().invoke(app, ["parity", "report", "--html", str(file)])
    assert answer.exit_code == 0, answer.output
    assert answer.output.strip() == str(file)
    assert "<strong>77</strong>" in file.read_text(encoding="utf-8")


def test_a_file_that_cannot_be_written_is_said(settings, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("LOCKSTEP_HOME", str(settings.home))
    answer = CliRunner().invoke(app, ["parity", "report", "--html", str(tmp_path / "no" / "x")])
    assert "cannot be written" in str(answer.exception)


def test_an_hour_names_rows_by_the_columns_of_their_key(settings, tmp_path) -> None:
    plan, failed = parcels(tmp_path / "project"), line(3, Verdict.FAIL, value_mismatch=1)
    evidence = '{"change": null, "is_same_transaction": true}'
    one = Difference(DifferenceClass.VALUE_MISMATCH, '["<a>",7]', "[]", "{}", "{}", evidence)
    book.append(settings, failed, [one])
    values = view.hour(settings, plan, failed.window, StreamMode.OUTBOX, lambda *_: "")
    links = dict.fromkeys(("overview_url", "repair_dag_url"), "")
    page = render("hour.html", values | links | {"docs": None, "refresh_seconds": 0})
    assert "<th>group, number</th>" in page
    assert "<strong>[&#34;&lt;a&gt;&#34;,7]</strong>" in page
