"""The pages: what they hold, that they need no internet, and that old ones go."""

import json
import re
from urllib.parse import unquote

import pytest
from lockstep.model.verdict import CheckStatus
from lockstep.model.window import Window
from lockstep.quality import CheckResult, QualityReport, check_window, data_docs
from lockstep.quality.report import HOURLY


@pytest.fixture(scope="module")
def checked(tmp_path_factory, hourly_table_in):
    """A window with an unknown client, checked."""
    table = hourly_table_in(tmp_path_factory.mktemp("docs"))
    window = table.window(11)
    orders = table.orders(window)
    orders[3]["client_name"] = None
    table.commit(window, orders)
    return check_window(table.settings, window)


def page_of(report: QualityReport) -> str:
    return (report.data_docs / unquote(report.data_docs_page)).read_text()


def test_window_page_shows_each_check_and_what_was_found(checked):
    page = page_of(checked)
    assert "2015-01-01 11:00 to 12:00" in page
    for check in checked.checks:
        assert f"<td>{check.name}</td>" in page
    assert "all but 1 of 10 orders" in page
    assert '<span class="status warn">warn</span>' in page


def test_index_leads_to_the_window_and_to_what_is_expected(checked):
    index = (checked.data_docs / "index.html").read_text()
    links = [unquote(link) for link in re.findall(r'href="([^"]+)"', index)]
    assert unquote(checked.data_docs_page) in links
    assert all((checked.data_docs / link).is_file() for link in links)
    assert "client known: all but 1 of 10 orders" in index


def test_no_page_loads_anything_from_the_internet(checked):
    pages = list(checked.data_docs.rglob("*.html"))
    assert len(pages) == 5  # the index, two suites, two results
    for page in pages:
        text = page.read_text()
        assert not re.findall(r"""(?:src|href)=["']?https?:|url\(['"]?https?:""", text), page


def test_page_of_another_schema_is_the_columns_own(hourly_table):
    window = hourly_table.window(11)
    hourly_table.commit(
        window,
        [],
        schema=hourly_table.schema.remove(hourly_table.schema.get_field_index("cut_lsn")),
    )
    report = check_window(hourly_table.settings, window)
    assert "cut_lsn" in page_of(report)
    assert "(absent)" in page_of(report)


def a_report(
    folder, window: Window, found: str = "all 10 orders", subject: str = HOURLY
) -> QualityReport:
    check = CheckResult("client known", CheckStatus.WARN, CheckStatus.WARN, found, "known")
    docs = folder / "data_docs"
    return QualityReport(window, "run", 10, (check,), docs, "page.html", 0.5, subject)


def add_run(folder, name: str, time: str, window: Window, subject: str = HOURLY) -> None:
    """A run as Great Expectations leaves it: results and pages of one suite."""
    for kept, ending in (("gx/uncommitted/validations", "json"), ("data_docs/validations", "html")):
        result = folder / kept / "suite" / name / time / f"frame.{ending}"
        result.parent.mkdir(parents=True)
        result.write_text("{}")
    page = f"validations/suite/{name}/{time}/frame.html"
    report = a_report(folder, window, subject=subject)
    data_docs.add(folder, report, [page], (name, time))


def test_only_the_newest_runs_are_kept(tmp_path, hourly_table, monkeypatch):
    monkeypatch.setattr(data_docs, "RUNS_KEPT", 3)
    # Hour 5 is checked twice, the second time later than 6 and 7.
    for run, hour in enumerate((5, 6, 7, 5, 8), start=1):
        add_run(tmp_path, f"hour {hour}", f"2015010{run}T000000", hourly_table.window(hour))

    reports = [json.loads(path.read_text()) for path in (tmp_path / "reports").iterdir()]
    kept = {report["window"][-14:-9] for report in reports}
    index = (tmp_path / "data_docs" / "index.html").read_text()
    assert kept == {"07:00", "05:00", "08:00"}
    assert index.count('<span class="status warn">') == 3
    for root in ("gx/uncommitted/validations", "data_docs/validations"):
        folders = {
            path.name: len(list(path.iterdir())) for path in (tmp_path / root / "suite").iterdir()
        }
        assert folders == {"hour 5": 1, "hour 7": 1, "hour 8": 1}


def test_the_index_lists_hourly_table_and_streams_and_keeps_as_many_of_each(
    tmp_path, hourly_table, monkeypatch
):
    monkeypatch.setattr(data_docs, "RUNS_KEPT", 2)
    for run in range(3):
        for subject in (HOURLY, "outbox"):
            window = hourly_table.window(run)
            name = data_docs.run_name(window, subject)
            add_run(tmp_path, name, f"2015010{run + 1}T000000", window, subject)

    index = (tmp_path / "data_docs" / "index.html").read_text()
    assert [index.count(f"<td>{subject}</td>") for subject in (HOURLY, "outbox")] == [2, 2]
    assert data_docs.newest_record(tmp_path, hourly_table.window(0), "outbox") is None
    record = data_docs.newest_record(tmp_path, hourly_table.window(2), "outbox")
    assert (record["subject"], record["window"]) == ("outbox", "2015-01-01 02:00 to 03:00")


def test_reports_of_before_there_were_subjects_are_the_hourly_tables(tmp_path, hourly_table):
    add_run(tmp_path, "hour 5", "20150101T000000", hourly_table.window(5))
    (path,) = (tmp_path / "reports").iterdir()
    record = json.loads(path.read_text())
    del record["subject"], record["check_id"]
    path.write_text(json.dumps(record))
    add_run(tmp_path, "hour 6", "20150102T000000", hourly_table.window(6))
    index = (tmp_path / "data_docs" / "index.html").read_text()
    assert index.count(f"<td>{HOURLY}</td>") == 2


def test_a_report_of_before_still_shows_what_was_found(tmp_path, hourly_table):
    """Its messages had another name."""
    add_run(tmp_path, "hour 5", "20150101T000000", hourly_table.window(5))
    (path,) = (tmp_path / "reports").iterdir()
    record = json.loads(path.read_text())
    del record["messages"]
    path.write_text(json.dumps(record | {"told": ["an order is lost"]}))
    add_run(tmp_path, "hour 6", "20150102T000000", hourly_table.window(6))
    assert "an order is lost" in (tmp_path / "data_docs" / "index.html").read_text()


def test_names_from_the_data_are_text_in_the_pages(tmp_path, hourly_table):
    report = a_report(tmp_path, hourly_table.window(11), found="<script>alert(1)</script>")
    page = tmp_path / "data_docs" / "page.html"
    page.parent.mkdir()
    page.write_text(f"<body>{data_docs.SUMMARY_PLACE}</body>")
    data_docs.add(tmp_path, report, ["page.html"], ("window", "20150101T110000"))
    for file in (page, page.with_name("index.html")):
        assert "&lt;script&gt;" in file.read_text()
        assert "<script>" not in file.read_text()


@pytest.mark.parametrize(
    ("start", "end", "text"),
    [
        ("2015-01-01T11:00", "2015-01-01T12:00", "2015-01-01 11:00 to 12:00"),
        ("2015-01-01T23:00", "2015-01-02T00:00", "2015-01-01 23:00 to 2015-01-02 00:00"),
        ("2015-01-01T11:00:30", "2015-01-01T12:00", "2015-01-01 11:00:30 to 12:00"),
    ],
)
def test_windows_are_written_shortly(start, end, text):
    assert data_docs.window_text(Window.parse(start, end)) == text
