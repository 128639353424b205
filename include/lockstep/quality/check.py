"""Checks one window of the hourly table, from the commit's metadata to the Data Docs."""

import time
from collections.abc import Mapping

from deltalake import DeltaTable

from lockstep.model.window import Window
from lockstep.pipeline.names import sql_name
from lockstep.pipeline.plan import Plan, plan_named
from lockstep.pipeline.result_tables import HOURLY_COLUMNS, HOURLY_PARTITION
from lockstep.quality import frames
from lockstep.quality.gx_store import Part
from lockstep.quality.judgement import Judged, judged
from lockstep.quality.report import QualityReport
from lockstep.quality.suite import COLUMN_CHECKS, Suite, row_checks
from lockstep.settings import Settings
from lockstep.sources import delta
from lockstep.sources.hourly_runs import WrittenWindow, written_by


def check_window(settings: Settings, window: Window) -> QualityReport:
    """Check the rows that the last run of exactly this window wrote, with what was repaired since.

    Builds the window's Data Docs. A quiet hour without rows passes. Checking a window again adds
    a result and changes nothing else. Raises LakehouseError when there is no table,
    WindowNotWrittenError when no run wrote exactly this window, PipelineError when the pipeline's
    folder cannot be used (ManifestError: its checks.toml), QualityStoreError when HOME/quality
    cannot be used.
    """
    plan = plan_named(settings.project, settings.names.pipeline)
    table = delta.open_table(settings.table_uri(settings.names.hourly_table))
    columns = {**plan.result.columns, **HOURLY_COLUMNS, **plan.origin_columns}
    return check_table(settings, plan, table, columns, window)


def check_table(
    settings: Settings, plan: Plan, table: DeltaTable, columns: Mapping[str, str], window: Window
) -> QualityReport:
    """The same of a pipeline's hourly table, by whose name its suites are called.

    columns: name and Delta type of each, as declared.
    """
    started = time.monotonic()
    # Step 1: one version of the table, so that rows and metadata belong together.
    written = written_by(table, window)
    run_ids = [cut.run_id for cut in written.cuts]
    # Step 2: the rows, unless they are of another shape and cannot be read as declared.
    partitions = () if plan.time is None else (HOURLY_PARTITION,)
    found = frames.columns_frame(table, columns, partitions)
    name = sql_name(table.table_uri)
    suite = Suite(f"{name}_columns", COLUMN_CHECKS, "columns")
    parts = [Part(suite, found, frames.column_labels(found))]
    noun = plan.fact.name.name
    if frames.is_as_declared(found):
        suite = Suite(name, row_checks(plan), noun)
        rows = frames.rows_frame(frames.WrittenRows(table, window, run_ids), plan)
        parts.append(Part(suite, rows, frames.key_labels(rows, plan.row_keys)))
    # Step 3: against what the run and its repairs recorded.
    what = Judged(window, name, written.run.cut.run_id, noun)
    return judged(settings, what, parts, _facts(written, run_ids, noun), started)


def _facts(written: WrittenWindow, run_ids: list[str], noun: str) -> dict[str, object]:
    """What the suite calls $rows_at_cut and the like."""
    return {
        "rows_at_cut": written.rows,
        "noun": noun,
        "window": str(written.run.window),
        "window_start": written.run.window.start,
        "window_end": written.run.window.end,
        "written_by": ", repaired by ".join(run_ids),
        "run_ids": run_ids,
    }
