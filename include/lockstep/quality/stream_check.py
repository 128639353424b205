"""Checks a window of a stream: its changes in the change log, and what comparing them came to."""

import time
from collections.abc import Mapping

import pyarrow as pa
from deltalake import DeltaTable

from lockstep.errors import LakehouseError
from lockstep.ledger import book
from lockstep.ledger.entries import Comparison
from lockstep.model.modes import StreamMode
from lockstep.model.verdict import DifferenceClass, Verdict
from lockstep.model.window import Window
from lockstep.parity.policy import Policy
from lockstep.pipeline.names import sql_name
from lockstep.pipeline.plan import Plan, plan_named
from lockstep.pipeline.project_files import PIPELINE_FILE
from lockstep.pipeline.result_tables import CHANGE_PARTITION, change_columns
from lockstep.pipeline.tolerate import Tolerate
from lockstep.quality import frames
from lockstep.quality.gx_store import Part
from lockstep.quality.judgement import Judged, judged
from lockstep.quality.report import QualityReport
from lockstep.quality.stream_suite import PARITY_CHECKS, change_checks
from lockstep.quality.suite import COLUMN_CHECKS, Suite
from lockstep.settings import Settings
from lockstep.sinks.append_log import pipeline_version_of
from lockstep.sources import delta

COLUMN_SUITE = Suite("change_log_columns", COLUMN_CHECKS, "columns")
CHANGE_SUITE, CHANGES = "change_log", "changes"
COMPARED = (Verdict.PASS, Verdict.FAIL)
"""Other verdicts say that nothing was compared; then there is nothing to judge."""


def check_stream(settings: Settings, line: Comparison) -> QualityReport:
    """Check what a comparison read of a stream, and its verdict, and build their Data Docs.

    line: of the ledger, its verdict one of COMPARED. A window without orders passes. Checking a
    comparison again adds a result and changes nothing else. Raises LakehouseError when the change
    log cannot be read or is of another version of the pipeline, PipelineError when the pipeline's
    folder cannot be used, QualityStoreError when HOME/quality cannot be used.
    """
    started = time.monotonic()
    plan = plan_named(settings.project, settings.names.pipeline)
    # Step 1: the changes that were compared are those up to the stream's frontier of then.
    change_log = delta.open_table(settings.table_uri(settings.names.change_log(line.mode)))
    if pipeline_version_of(change_log) != line.pipeline_version:
        raise LakehouseError(
            f"{change_log.table_uri} is of another version of the pipeline than the comparison of "
            f"{line.checked_at.isoformat()}: compare the window again"
        )
    columns = {**plan.result.columns, **change_columns(line.mode)}
    # Step 2: the changes, unless they are of another shape and cannot be read as declared.
    parity_suite = Suite("parity", PARITY_CHECKS, plan.fact.name.name)
    compared = _parity_frame(line)
    parts = [
        Part(parity_suite, compared, frames.column_labels(compared)),
        *change_parts(change_log, plan, columns, line.window, line.stream_frontier),
    ]
    # Step 3: one gx_checkpoint over verdict, columns and changes.
    subject = sql_name(settings.names.change_log(line.mode))
    what = Judged(line.window, subject, line.run_id, CHANGES, line.check_id)
    return judged(settings, what, parts, _facts(plan.manifest.tolerate, line), started)


def change_parts(
    change_log: DeltaTable,
    plan: Plan,
    columns: Mapping[str, str],
    window: Window,
    frontier: int | None = None,
) -> list[Part]:
    """The columns of a change log, and the window's changes if they are as declared.

    frontier: changes up to this commit LSN alone. columns: name and Delta type of each, as
    declared.
    """
    found = frames.columns_frame(change_log, columns, (CHANGE_PARTITION,))
    parts = [Part(COLUMN_SUITE, found, frames.column_labels(found))]
    if frames.is_as_declared(found):
        suite = Suite(CHANGE_SUITE, change_checks(plan.result), CHANGES)
        changes = frames.changes_frame(change_log, plan.result, window, frontier)
        parts.append(Part(suite, changes, frames.key_labels(changes, plan.row_keys)))
    return parts


def stream_failures(report: QualityReport) -> list[str]:
    """What is wrong with the stream's table itself, whatever the comparison came to."""
    return report.failures_of({COLUMN_SUITE.name, CHANGE_SUITE})


def newest_comparison(settings: Settings, window: Window, mode: StreamMode) -> Comparison:
    """The ledger's last line of exactly this window that has a verdict to judge.

    Raises LakehouseError when there is none.
    """
    lines = book.lines(settings, mode, since=window.start)
    found = [line for line in lines if line.window == window and line.verdict in COMPARED]
    if not found:
        raise LakehouseError(
            f"the window {window} was never compared with {mode}: `lockstep parity check` does it"
        )
    return found[-1]


def modes_compared(settings: Settings, window: Window) -> list[StreamMode]:
    """The modes that exactly this window was compared with."""
    lines = book.lines(settings, since=window.start)
    found = {line.mode for line in lines if line.window == window and line.verdict in COMPARED}
    return [mode for mode in StreamMode if mode in found]


def _parity_frame(line: Comparison) -> pa.Table:
    counts = {str(kind): [line.counts.get(kind, 0)] for kind in DifferenceClass}
    return pa.table({"check_id": [line.check_id], "verdict": [str(line.verdict)], **counts})


def _facts(tolerate: Tolerate, line: Comparison) -> dict[str, object]:
    """What the suites call $value_mismatch_max and the like; None is no bound."""
    may_race = line.mode is StreamMode.LOOKUP
    facts: dict[str, object] = {
        "raced_values": [True, False] if may_race else [False],
        "raced": "marked or not" if may_race else "no row marked",
    }
    policy = Policy(tolerate)
    for kind in DifferenceClass:
        bound = policy.limit(line.mode, kind, line.orders_compared)
        if kind is DifferenceClass.CHANGED_AFTER_CUT:
            allowed = "any: no part of the verdict"
        elif policy.tolerates(line.mode, kind):
            most = "any" if bound is None else f"at most {bound:,}"
            allowed = f"{most}: by design of {line.mode} ({PIPELINE_FILE})"
        else:
            allowed = "none"
        facts |= {f"{kind}_max": bound, f"{kind}_allowed": allowed}
    return facts
