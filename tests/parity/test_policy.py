"""The policy's limit of raced orders: how many a window may have, and what is said above it."""

import pytest
from lockstep.errors import ConfigurationError
from lockstep.model.modes import StreamMode
from lockstep.model.verdict import DifferenceClass, Verdict
from lockstep.parity.policy import read_policy

LOOKUP, RACE = StreamMode.LOOKUP, DifferenceClass.LOOKUP_RACE
TEXT = """
raced_share_max = 0.02
raced_orders_always = 3
[tolerated]
lookup = ["lookup_race", "dimension_drift"]
"""


@pytest.mark.parametrize(
    ("orders", "most"),
    [(3, 3), (150, 3), (199, 3), (200, 4), (1450, 29), (1_000_000, 20_000)],
)
def test_a_share_of_a_windows_orders_may_be_raced_and_a_few_always(orders: int, most: int) -> None:
    policy = read_policy(TEXT)
    assert policy.limit(LOOKUP, RACE, orders) == most
    assert policy.verdict(LOOKUP, {RACE: most}, orders) is Verdict.PASS
    assert policy.verdict(LOOKUP, {RACE: most + 1}, orders) is Verdict.FAIL
    assert policy.verdict(StreamMode.OUTBOX, {RACE: 1}, orders) is Verdict.FAIL
    assert policy.limit(LOOKUP, DifferenceClass.DIMENSION_DRIFT, orders) is None


def test_above_the_limit_the_reason_gives_count_share_and_limit() -> None:
    policy = read_policy(TEXT)
    counts = {RACE: 25, DifferenceClass.VALUE_MISMATCH: 2, DifferenceClass.DIMENSION_DRIFT: 9}
    assert policy.reason(LOOKUP, counts, 1000) == (
        "25 lookup_race of 1,000 orders (2.5%; the limit is 20: 2.0%, or 3 orders), "
        "2 value_mismatch"
    )
    assert policy.reason(LOOKUP, {RACE: 20}, 1000) == ""


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("raced_share_max = 1.5", "raced_share_max is 1.5"),
        ("raced_share_max = nan", "cannot be used"),
        ('raced_share_max = "many"', "cannot be used"),
        ("", "raced_share_max"),
    ],
)
def test_a_limit_that_is_none_is_refused(wrong: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        read_policy(TEXT.replace("raced_share_max = 0.02", wrong))
    with pytest.raises(ConfigurationError, match="must not be negative"):
        read_policy(TEXT.replace("always = 3", "always = -1"))
