"""Checks one window of the hourly table, from the commit's metadata to the Data Docs."""

import time

from lockstep import pizzeria
from lockstep.model.window import Window
from lockstep.quality import frames
from lockstep.quality.gx_store import Part
from lockstep.quality.judgement import Judged, judged
from lockstep.quality.report import HOURLY, QualityReport
from lockstep.quality.suite import COLUMN_CHECKS, ROW_CHECKS, Suite
from lockstep.settings import Settings
from lockstep.sources import delta
from lockstep.sources.hourly_runs import WrittenWindow, written_by

_TABLE = pizzeria.sql_name(pizzeria.ORDERS_ENRICHED_BATCH)
COLUMN_SUITE = Suite(f"{_TABLE}_columns", COLUMN_CHECKS, "columns")
ROW_SUITE = Suite(_TABLE, ROW_CHECKS, "orders")


def check_window(settings: Settings, window: Window) -> QualityReport:
    """Check the rows that the last run of exactly this window wrote, with what was repaired since.

    Builds the window's Data Docs. A quiet hour without orders passes. Checking a window again adds
    a result and changes nothing else. Raises LakehouseError when there is no table,
    WindowNotWrittenError when no run wrote exactly this window, QualityStoreError when
    HOME/quality cannot be used.
    """
    started = time.monotonic()
    # Step 1: one version of the table, so that rows and metadata belong together.
    table = delta.open_table(settings.table_uri(pizzeria.ORDERS_ENRICHED_BATCH))
    written = written_by(table, window)
    # Step 2: the rows, unless they are of another shape and cannot be read as declared.
    columns = frames.columns_frame(
        table,
        pizzeria.ORDERS_ENRICHED_BATCH_COLUMNS,
        pizzeria.ORDERS_ENRICHED_BATCH_PARTITIONS,
    )
    parts = [Part(COLUMN_SUITE, columns)]
    if frames.is_as_declared(columns):
        parts.append(Part(ROW_SUITE, frames.rows_frame(table, window, _run_ids(written))))
    # Step 3: against what the run and its repairs recorded.
    return judged(
        settings,
        Judged(window, HOURLY, written.run.cut.run_id, "orders"),
        parts,
        _facts(written),
        started,
    )


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
