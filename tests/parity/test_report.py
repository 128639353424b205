"""What a comparison prints: how many rows differ, what is tolerated, what is to be done again."""

import io
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from lockstep.ledger.entries import Difference
from lockstep.model.modes import StreamMode
from lockstep.model.verdict import DifferenceClass, Verdict
from lockstep.model.window import Window
from lockstep.parity.check import Check
from lockstep.parity.report import print_checks
from lockstep.pipeline.plan import plan_named
from pizzeria.names import MANIFEST
from rich.console import Console

from tests.ledger.compared_hours import line as compared
from tests.project import PROJECT_DIR

PLAN = plan_named(PROJECT_DIR, MANIFEST)
HOUR = timedelta(hours=1)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
DRIFT, MISMATCH = DifferenceClass.DIMENSION_DRIFT, DifferenceClass.VALUE_MISMATCH


def shown(
    counts: Mapping[DifferenceClass, int] = {},
    verdict: Verdict = Verdict.PASS,
    end: datetime = NOON,
    found: int = 0,
    width: int = 300,
    key: str = "[1]",
) -> str:
    own = {"window": Window(end - HOUR, end), "counts": counts, "reason": ""}
    line = replace(compared(0, verdict, StreamMode.TEMPORAL), **own)
    evidence = json.dumps({"explained_by": []})
    drifts = [Difference(DRIFT, key, "[]", None, None, evidence)] * found
    printed = io.StringIO()
    print_checks(Console(file=printed, width=width), PLAN.row_keys, [Check(line, drifts)])
    return printed.getvalue()


def test_all_that_differ_are_counted_though_few_are_kept() -> None:
    assert "and 5,065 more" in shown({DRIFT: 5_075}, found=1_000)
    assert " more" not in shown({DRIFT: 10}, found=10)


def test_what_a_passing_mode_tolerates_is_said() -> None:
    assert "dimension_drift is tolerated by pipeline.toml" in shown({DRIFT: 3})
    assert "is tolerated" not in shown({DRIFT: 3, MISMATCH: 1}, Verdict.FAIL)
    assert "is tolerated" not in shown()


@pytest.mark.parametrize(("ends_in", "has_ended"), [(-HOUR, True), (HOUR, False)])
def test_a_window_that_has_not_ended_is_to_be_compared_again(
    ends_in: timedelta, has_ended: bool
) -> None:
    text = shown(end=datetime.now(UTC) + ends_in)
    assert ("has not ended: run and compare it again" in text) is not has_ended


def test_a_key_is_whole_in_a_narrow_terminal() -> None:
    key = "02abf212-3d30-4534-997e-86852051e4b4"
    lines = shown({DRIFT: 1}, found=1, width=70, key=json.dumps([key])).splitlines()
    cells = [line.split("│")[1].strip() for line in lines if line.startswith("│")]
    assert key in "".join(cells)
