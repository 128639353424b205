"""Checks one window of the hourly table, from the commit's metadata to the Data Docs."""

import time
from pathlib import Path

from lockstep import contracts
from lockstep.contracts import CheckStatus, Window
from lockstep.quality import data_docs, frames, gx_store
from lockstep.quality.gx_store import Suite
from lockstep.quality.report import QualityReport, worst
from lockstep.quality.suite import COLUMN_CHECKS, ROW_CHECKS
from lockstep.settings import Settings
from lockstep.sources import delta
from lockstep.sources.hourly_runs import WrittenWindow, written_by

_TABLE = contracts.ORDERS_ENRICHED_BATCH.rsplit("/", 1)[-1]
COLUMN_SUITE = Suite(f"{_TABLE}_columns", COLUMN_CHECKS, "columns")
ROW_SUITE = Suite(_TABLE, ROW_CHECKS, "orders")


def quality_folder(settings: Settings) -> Path:
    """Where the results and pages of all checks accumulate."""
    return settings.home / "quality"


def check_window(settings: Settings, window: Window) -> QualityReport:
    """Check the rows that the last run of exactly this window wrote, with what was repaired since.

    Builds the window's Data Docs. A quiet hour without orders passes. Checking a window again adds
    a result and changes nothing else. Raises LakehouseError when there is no table,
    WindowNotWrittenError when no run wrote exactly this window, QualityStoreError when
    HOME/quality cannot be used.
    """
    started = time.monotonic()
    # Step 1: one version of the table, so that rows and metadata belong together.
    table = delta.open_table(settings.table_uri(contracts.ORDERS_ENRICHED_BATCH))
    written = written_by(table, window)
    with gx_store.opened(quality_folder(settings)) as store:
        # Step 2: the schema before the rows; rows of another shape cannot be read as declared.
        recording = store.record(window)
        checks = recording.validate(COLUMN_SUITE, frames.columns_frame(table), {})
        rows = 0
        if worst(checks) is not CheckStatus.FAIL:
            # Step 3: the rows, against what the run and its repairs recorded.
            frame = frames.rows_frame(table, window, _run_ids(written))
            rows = len(frame)
            checks += recording.validate(ROW_SUITE, frame, _facts(written))
        # Step 4: the pages, and the index of checked windows.
        pages = recording.build_pages()
        report = QualityReport(
            window=window,
            run_id=written.run.cut.run_id,
            rows=rows,
            checks=checks,
            data_docs=store.folder / "data_docs",
            data_docs_page=data_docs.page_url(pages[-1]),
            seconds=time.monotonic() - started,
        )
        data_docs.add(store.folder, report, pages, recording.run_id.to_tuple())
    return report


def _facts(written: WrittenWindow) -> dict[str, object]:
    """What the suite calls $orders_at_cut and the like."""
    run_ids = _run_ids(written)
    return {
        "orders_at_cut": written.orders,
        "window": str(written.run.window),
        "window_start": written.run.window.start,
        "window_end": written.run.window.end,
        "written_by": ", repaired by ".join(run_ids),
        "run_ids": run_ids,
    }


def _run_ids(written: WrittenWindow) -> list[str]:
    return [cut.run_id for cut in written.cuts]
