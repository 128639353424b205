"""What a manifest tolerates: which classes, how many raced rows, and what is said above that."""

from decimal import Decimal

import pytest
from lockstep.model.modes import StreamMode
from lockstep.model.verdict import DifferenceClass, Verdict
from lockstep.parity.policy import Policy
from lockstep.pipeline.modes import STREAM_MODES, Mode
from lockstep.pipeline.plan import plan_named
from lockstep.pipeline.tolerate import Tolerate
from pizzeria.names import MANIFEST

from tests.project import PROJECT_DIR

LOOKUP, RACE = StreamMode.LOOKUP, DifferenceClass.LOOKUP_RACE
POLICY = Policy(
    Tolerate(
        lookup=("lookup_race", "dimension_drift"),
        raced_share_max=Decimal("0.02"),
        raced_rows_always=3,
    )
)


@pytest.mark.parametrize(
    ("rows", "most"),
    [(3, 3), (150, 3), (199, 3), (200, 4), (1450, 29), (1_000_000, 20_000)],
)
def test_a_share_of_a_windows_orders_may_be_raced_and_a_few_always(rows: int, most: int) -> None:
    assert POLICY.limit(LOOKUP, RACE, rows) == most
    assert POLICY.verdict(LOOKUP, {RACE: most}, rows) is Verdict.PASS
    assert POLICY.verdict(LOOKUP, {RACE: most + 1}, rows) is Verdict.FAIL
    assert POLICY.verdict(StreamMode.OUTBOX, {RACE: 1}, rows) is Verdict.FAIL
    assert POLICY.limit(LOOKUP, DifferenceClass.DIMENSION_DRIFT, rows) is None


def test_above_the_limit_the_reason_gives_count_share_and_limit() -> None:
    counts = {RACE: 25, DifferenceClass.VALUE_MISMATCH: 2, DifferenceClass.DIMENSION_DRIFT: 9}
    assert POLICY.reason(LOOKUP, counts, 1000) == (
        "25 lookup_race of 1,000 rows (2.5%; the limit is 20: 2.0%, or 3 rows), 2 value_mismatch"
    )
    assert POLICY.reason(LOOKUP, {RACE: 20}, 1000) == ""


@pytest.mark.parametrize("kind", DifferenceClass)
@pytest.mark.parametrize("mode", STREAM_MODES)
def test_the_policy_tolerates_drift_and_the_look_ups_race(
    mode: Mode, kind: DifferenceClass
) -> None:
    policy = Policy(plan_named(PROJECT_DIR, MANIFEST).manifest.tolerate)
    passes = kind in (DifferenceClass.DIMENSION_DRIFT, DifferenceClass.CHANGED_AFTER_CUT)
    passes |= kind is RACE and mode is Mode.LOOKUP
    assert policy.verdict(mode, {kind: 1}, 1) is (Verdict.PASS if passes else Verdict.FAIL)
    assert policy.verdict(mode, {kind: 0}, 0) is Verdict.PASS
