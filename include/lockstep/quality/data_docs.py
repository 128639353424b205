"""The Data Docs: which pages are built, how many are kept, and the index of checked windows.

Great Expectations builds a page for each result and each suite (offline_view.py makes them
readable without the internet), and a summary of ours opens each result's page. The index is ours
too: GX's own is drawn by scripts from the internet, shows a warning as a failure, and reads every
result ever stored.
"""

import json
import shutil
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from lockstep.model.window import Window
from lockstep.quality.report import HOURLY, QualityReport

if TYPE_CHECKING:
    import great_expectations as gx

RUNS_KEPT = 240
"""Checked windows of a subject whose results and pages are kept: ten days of hours, more than
anyone scrolls through. About 150 kB each; a check's time hardly depends on their number."""

PAGES = Path(__file__).parent / "pages"
SITE = "data_docs"
SUMMARY_PLACE = "<!-- summary -->"
"""Where offline_view.py leaves room for ours in a page of GX."""

_SEPARATOR = "__"
_REPORTS = "reports"
_VIEW = {"module_name": "lockstep.quality.offline_view", "class_name": "OfflinePageView"}
SITE_CONFIG = {
    "class_name": "SiteBuilder",
    "show_how_to_buttons": False,
    "store_backend": {
        "class_name": "TupleFilesystemStoreBackend",
        "base_directory": "../data_docs/",
    },
    "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
    "site_section_builders": {
        "expectations": {"view": _VIEW},
        "validations": {"view": _VIEW},
        "profiling": "None",
    },
}


def build_pages(context: "gx.data_context.FileDataContext", identifiers: list) -> list[str]:
    """Build the pages of the given results; returns their paths below the Data Docs' folder."""
    suites = [identifier.expectation_suite_identifier for identifier in identifiers]
    context.build_data_docs([SITE], resource_identifiers=[*identifiers, *suites], build_index=False)
    return [f"validations/{'/'.join(identifier.to_tuple())}.html" for identifier in identifiers]


def add(folder: Path, report: QualityReport, pages: list[str], gx_run: tuple[str, str]) -> None:
    """Put the report on its pages and into the index, and forget the oldest runs.

    `folder` is the store's; `gx_run` the name and time under which GX keeps the run's results.
    """
    for page in pages:
        path = folder / "data_docs" / page
        html = path.read_text(encoding="utf-8")
        values = {"window": window_text(report.window), "root": "../" * page.count("/")}
        summary = _render("summary.html.j2", report=report, **values)
        _write(path, html.replace(SUMMARY_PLACE, summary, 1))
    reports = folder / _REPORTS
    reports.mkdir(exist_ok=True)
    run_name, run_time = gx_run
    _write(reports / f"{run_time}{_SEPARATOR}{run_name}.json", json.dumps(_record(report)))
    records = _kept_records(folder)
    suites = sorted(path.stem for path in (folder / "data_docs" / "expectations").glob("*.html"))
    index = _render("index.html.j2", records=records, suites=suites, runs_kept=RUNS_KEPT)
    _write(folder / "data_docs" / "index.html", index)


def newest_record(folder: Path, window: Window, subject: str) -> dict[str, Any] | None:
    """The newest report of a window and subject, as the index has it; None when there is none."""
    of_window = folder.joinpath(_REPORTS).glob(f"*{_SEPARATOR}{run_name(window, subject)}.json")
    newest = max(of_window, default=None)
    return newest and json.loads(newest.read_text(encoding="utf-8"))


def run_name(window: Window, subject: str) -> str:
    """Under which GX keeps the results of a window."""
    bounds = f"{window.start:%Y-%m-%dT%H:%M:%SZ}_{window.end:%Y-%m-%dT%H:%M:%SZ}"
    return f"{bounds}_{subject}"


def _kept_records(folder: Path) -> list[dict[str, Any]]:
    """All reports, the newest first; of each subject the oldest are forgotten."""
    records, kept = [], Counter[str]()
    reports = folder.joinpath(_REPORTS).glob(f"*{_SEPARATOR}*.json")
    for path in sorted(reports, reverse=True):
        record = json.loads(path.read_text(encoding="utf-8"))
        subject = record.setdefault("subject", HOURLY)
        record.setdefault("messages", record.get("told", []))  # their name in earlier versions
        kept[subject] += 1
        if kept[subject] > RUNS_KEPT:
            _forget(folder, path)
        else:
            records.append(record)
    return records


def window_text(window: Window) -> str:
    """2015-01-01 11:00 to 12:00; the day again, and seconds, only where they differ."""
    start, end = (
        f"{bound:%Y-%m-%d %H:%M:%S}".removesuffix(":00") for bound in (window.start, window.end)
    )
    same_day = window.start.date() == window.end.date()
    return f"{start} to {end[11:] if same_day else end}"


def _record(report: QualityReport) -> dict[str, Any]:
    return {
        "window": window_text(report.window),
        "subject": report.subject,
        "check_id": report.check_id,
        "run_id": report.run_id,
        "rows": report.rows,
        "status": report.status,
        "messages": [*report.failures, *report.warnings],
        "page": report.data_docs_page,
        "checked_at": f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}",
    }


def page_url(page: str) -> str:
    """A page's path as it stands in a link."""
    return quote(page)


def _forget(folder: Path, report: Path) -> None:
    """Remove a run's results and pages, then its report: interrupted, it is tried again."""
    run_time, run_name = report.stem.split(_SEPARATOR, 1)
    for kept in ("gx/uncommitted/validations", "data_docs/validations"):
        for suite in (folder / kept).glob("*/"):
            shutil.rmtree(suite / run_name / run_time, ignore_errors=True)
            with suppress(OSError):  # not empty: the window was checked again since
                (suite / run_name).rmdir()
    report.unlink(missing_ok=True)


def _render(template: str, **values: object) -> str:
    from jinja2 import Environment, FileSystemLoader

    environment = Environment(loader=FileSystemLoader(PAGES), autoescape=True)
    return environment.get_template(template).render(**values)


def _write(path: Path, text: str) -> None:
    """Whole or not at all: a reader may be open."""
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)
