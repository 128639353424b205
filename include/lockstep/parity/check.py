"""Compares a window with one mode, from the readiness of both sides to the ledger's line."""

import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lockstep.ledger import book
from lockstep.ledger.entries import Comparison, Difference
from lockstep.model.modes import StreamMode
from lockstep.model.verdict import Verdict
from lockstep.model.window import Window
from lockstep.parity import comparison, evidence
from lockstep.parity.given_up import described, touching
from lockstep.parity.policy import Policy
from lockstep.parity.readiness import Readiness
from lockstep.pipeline.plan import Plan
from lockstep.settings import Settings
from lockstep.sources.given_up import given_up_records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Check:
    """The ledger's line and the differences that it stands for."""

    line: Comparison
    differences: Sequence[Difference]


def check_window(
    session: Callable[[], "SparkSession"],
    settings: Settings,
    plan: Plan,
    window: Window,
    mode: StreamMode,
    ready: Readiness,
) -> Check:
    """Compare the window's rows in the hourly table with the mode's, at the run's cut.

    Adds a line to the ledger, whatever the verdict, with the differing rows. It reads one version
    of each table, so that changes may keep coming. Raises LakehouseError when the ledger cannot be
    written, StreamError when records were given up and Kafka does not say which topic it has.

    session: asked for only if there is something to compare. ready: of the window and the mode.
    """
    started = time.monotonic()
    policy = Policy(plan.manifest.tolerate)
    verdict, reason = ready.verdict, ready.reason
    compared = comparison.Compared(0, {}, 0, [])
    if verdict is None:
        wrong = comparison.schema_differences(session(), settings, plan, mode, ready)
        if wrong:
            verdict, reason = Verdict.FAIL, f"the columns differ: {'; '.join(wrong)}"
    if verdict is None:
        compared = comparison.compare(session(), settings, plan, window, mode, ready)
        verdict = policy.verdict(mode, compared.counts, compared.rows)
        reason = policy.reason(mode, compared.counts, compared.rows)
        if ready.repairs and verdict is Verdict.PASS:
            reason = (
                f"{len(ready.cuts_of_repaired()):,} of its rows were repaired after the hourly "
                "run, and are compared at the cut of their repair"
            )
        if compared.before_capture and verdict is Verdict.PASS:
            verdict = Verdict.NOT_COVERED
            reason = (
                f"{compared.before_capture:,} of its rows were there before change capture "
                f"began, and {mode} knows only what was published since"
            )
    line = Comparison(
        check_id=str(uuid.uuid4()),
        window=window,
        mode=mode,
        verdict=verdict,
        reason="; ".join(filter(None, (reason, _given_up(settings, window, mode, ready)))),
        run_id=ready.run.cut.run_id,
        cut_snapshot=ready.run.cut.snapshot,
        cut_lsn=ready.run.cut.marker_lsn,
        batch_version=ready.batch_version,
        stream_version=ready.stream_version,
        stream_frontier=ready.frontier,
        orders_compared=compared.rows,
        counts=compared.counts,
        definition=comparison.definition(plan),
        checked_at=datetime.now(UTC),
        seconds=time.monotonic() - started,
        pipeline_version=ready.version,
    )
    failing = policy.failing(mode, compared.counts, compared.rows)
    differences = evidence.differences(settings, plan, compared.differing)
    differences.sort(key=lambda one: one.kind not in failing)  # what fails the window comes first
    book.append(settings, line, differences)
    return Check(line, differences)


def _given_up(settings: Settings, window: Window, mode: StreamMode, ready: Readiness) -> str:
    """Which records an operator gave up that the mode may miss in the window, whatever the verdict.

    Rows are judged as they are: no difference is tolerated for that.
    """
    read_at = max([ready.run.cut.taken_at, *(repair.cut.taken_at for repair in ready.repairs)])
    return described(touching(given_up_records(settings), window, mode, read_at))
