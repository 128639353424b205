"""From what was read to the Data Docs: one gx_checkpoint over all parts of a window."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lockstep.model.window import Window
from lockstep.quality import data_docs, gx_store
from lockstep.quality.gx_store import Part
from lockstep.quality.report import QualityReport
from lockstep.settings import Settings


def quality_folder(settings: Settings) -> Path:
    """Where the results and pages of all checks accumulate."""
    return settings.home / "quality"


@dataclass(frozen=True)
class Judged:
    """What is judged; see QualityReport. noun: what a row of the last part is."""

    window: Window
    subject: str
    run_id: str
    noun: str
    check_id: str = ""


def judged(
    settings: Settings,
    what: Judged,
    parts: Sequence[Part],
    facts: Mapping[str, object],
    started: float,
) -> QualityReport:
    """Judge the parts, keep the results, build their pages and the index.

    parts: the last holds the rows, if they could be read, and has the window's own page.
    started: monotonic time, in seconds. Raises QualityStoreError when HOME/quality cannot be used.
    """
    *_, last = parts
    with gx_store.opened(quality_folder(settings)) as store:
        recording = store.record(what.window, what.subject)
        checks = recording.validate(f"{what.subject}_window", parts, facts)
        pages = recording.build_pages()
        report = QualityReport(
            window=what.window,
            run_id=what.run_id,
            rows=last.frame.num_rows if last.suite.noun == what.noun else 0,
            checks=checks,
            data_docs=store.folder / data_docs.SITE,
            data_docs_page=data_docs.page_url(pages[last.suite.name]),
            seconds=time.monotonic() - started,
            subject=what.subject,
            noun=what.noun,
            check_id=what.check_id,
            suite_pages={suite: data_docs.page_url(page) for suite, page in pages.items()},
        )
        data_docs.add(store.folder, report, list(pages.values()), recording.run_id.to_tuple())
    return report
