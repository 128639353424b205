"""The Data Docs: which pages are built, how many are kept, and the index of checked windows.

Great Expectations builds a page for each result and each suite (offline_view.py makes them
readable without the internet); the index is ours, because GX's own is drawn by scripts from the
internet, shows a warning as a failure, and is built from every result ever stored.
"""

import json
import shutil
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from lockstep.quality.report import QualityReport

if TYPE_CHECKING:
    import great_expectations as gx

RUNS_KEPT = 240
"""Checked windows whose results and pages are kept: ten days of hours, more than anyone scrolls
through. Each one kept costs every later check a millisecond or two of the index."""

_SEPARATOR = "__"
PAGES = Path(__file__).parent / "pages"
SITE = "data_docs"
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


def build_pages(context: "gx.data_context.FileDataContext", identifiers: list) -> str:
    """Build the pages of the given results; returns the last one's path, quoted for a URL."""
    suites = [identifier.expectation_suite_identifier for identifier in identifiers]
    context.build_data_docs([SITE], resource_identifiers=[*identifiers, *suites], build_index=False)
    return quote(f"validations/{'/'.join(identifiers[-1].to_tuple())}.html")


def add_to_index(folder: Path, report: QualityReport, gx_run: tuple[str, str]) -> None:
    """Remember a checked window, forget the oldest, and write the index of those that are left.

    `folder` is the store's; `gx_run` the name and time under which GX keeps the run's results.
    """
    reports = folder / "reports"
    reports.mkdir(exist_ok=True)
    run_name, run_time = gx_run
    _write(reports / f"{run_time}{_SEPARATOR}{run_name}.json", json.dumps(_record(report)))
    newest_first = sorted(reports.glob(f"*{_SEPARATOR}*.json"), reverse=True)
    for old in newest_first[RUNS_KEPT:]:
        _forget(folder, old)
    records = [json.loads(path.read_text(encoding="utf-8")) for path in newest_first[:RUNS_KEPT]]
    _write(folder / "data_docs" / "index.html", _index_html(records))


def _record(report: QualityReport) -> dict[str, object]:
    return {
        "start": report.window.start.isoformat(),
        "end": report.window.end.isoformat(),
        "run_id": report.run_id,
        "rows": report.rows,
        "status": report.status,
        "told": [*report.failures, *report.warnings],
        "page": report.data_docs_page,
        "checked_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(report.seconds, 2),
    }


def _forget(folder: Path, report: Path) -> None:
    """Remove a run's results and pages, then its report: interrupted, it is tried again."""
    run_time, run_name = report.stem.split(_SEPARATOR, 1)
    for kept in (folder / "gx" / "uncommitted" / "validations", folder / "data_docs/validations"):
        for suite in kept.glob("*/"):
            shutil.rmtree(suite / run_name / run_time, ignore_errors=True)
            with suppress(OSError):  # not empty: the window was checked again since
                (suite / run_name).rmdir()
    report.unlink(missing_ok=True)


def _index_html(records: list[dict]) -> str:
    from jinja2 import Environment, FileSystemLoader

    pages = Environment(loader=FileSystemLoader(PAGES), autoescape=True)
    return pages.get_template("index.html.j2").render(records=records, runs_kept=RUNS_KEPT)


def _write(path: Path, text: str) -> None:
    """Whole or not at all: somebody may be reading."""
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)
