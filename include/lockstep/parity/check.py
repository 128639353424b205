"""Compares a window with one mode, from the readiness of both sides to the ledger's line."""

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lockstep.ledger import book
from lockstep.ledger.entries import Comparison, Difference
from lockstep.model.modes import StreamMode
from lockstep.model.verdict import Verdict
from lockstep.parity import comparison, evidence
from lockstep.parity.comparison import OtherModes
from lockstep.parity.differing import DifferingRow
from lockstep.parity.given_up import described, touching
from lockstep.parity.lost_orders import where_lost
from lockstep.parity.policy import Policy
from lockstep.parity.readiness import Readiness
from lockstep.parity.sides import Sides
from lockstep.pipeline.modes import Mode
from lockstep.pipeline.plan import Plan
from lockstep.pipeline.row_keys import Key
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
    sides: Sides,
    others: OtherModes,
    task_log: str = "",
) -> Check:
    """Compare the window's rows in the hourly table with the mode's, at the run's cut.

    Adds a line to the ledger, whatever the verdict, with the differing rows. It reads one version
    of each table, so that changes may keep coming. Raises LakehouseError when the ledger cannot be
    written, StreamError when records were given up and Kafka does not say which topic it has.

    session: asked for only if there is something to compare. task_log: of the line, as Comparison
    has it. others: what was found of the window's other modes.
    """
    line, rows = _judged(session, sides, others)
    reasons = (line.reason, _given_up(sides))
    line = replace(line, reason="; ".join(filter(None, reasons)), task_log=task_log)
    found = where_lost(sides.settings, sides.plan.fact, evidence.lost_rows(rows))
    check = Check(line, _differences(sides.plan, line, rows, found))
    book.append(sides.settings, check.line, check.differences)
    return check


def _judged(
    session: Callable[[], "SparkSession"], sides: Sides, others: OtherModes
) -> tuple[Comparison, Sequence[DifferingRow]]:
    started, plan, ready = time.monotonic(), sides.plan, sides.ready
    compared, verdict, reason = comparison.Compared(0, {}, 0, []), ready.verdict, ready.reason
    if verdict is None:
        if wrong := sides.differing_columns():
            verdict, reason = Verdict.FAIL, f"the columns differ: {'; '.join(wrong)}"
        else:
            compared = comparison.compare(session(), sides, others)
            verdict, reason = _verdict(plan, sides.mode, ready, compared)
    line = Comparison(
        check_id=str(uuid.uuid4()),
        window=sides.window,
        mode=StreamMode(sides.mode),
        verdict=verdict,
        reason=reason,
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
    return line, compared.differing


def _differences(
    plan: Plan, line: Comparison, rows: Sequence[DifferingRow], found: Mapping[Key, dict]
) -> list[Difference]:
    """What fails the window comes first. found: of rows that the stream lacks, by key."""
    policy = Policy(plan.manifest.tolerate)
    failing = policy.failing(line.mode, line.counts, line.orders_compared)
    return sorted(evidence.differences(plan, rows, found), key=lambda one: one.kind not in failing)


def _verdict(
    plan: Plan, mode: Mode, ready: Readiness, compared: comparison.Compared
) -> tuple[Verdict, str]:
    policy = Policy(plan.manifest.tolerate)
    verdict = policy.verdict(mode, compared.counts, compared.rows)
    if verdict is not Verdict.PASS:
        return verdict, policy.reason(mode, compared.counts, compared.rows)
    if compared.before_capture:
        return Verdict.NOT_COVERED, (
            f"{compared.before_capture:,} of its rows were there before change capture "
            f"began, and {mode} knows only what was published since"
        )
    if ready.repairs:
        return verdict, (
            f"{len(ready.cuts_of_repaired()):,} of its rows were repaired after the hourly "
            "run, and are compared at the cut of their repair"
        )
    return verdict, ""


def _given_up(sides: Sides) -> str:
    """Which records an operator gave up that the mode may miss in the window, whatever the verdict.

    Rows are judged as they are: no difference is tolerated for that.
    """
    run, repairs = sides.ready.run, sides.ready.repairs
    read_at = max([run.cut.taken_at, *(repair.cut.taken_at for repair in repairs)])
    found = given_up_records(sides.settings)
    return described(touching(found, sides.plan, sides.window, sides.mode, read_at))
