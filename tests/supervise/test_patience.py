"""Only what lasts is acted upon, and a lag that gets less is borne."""

from datetime import UTC, datetime

import pytest
from lockstep.supervise.health import Finding, Health
from lockstep.supervise.heartbeat import DriverState, Heartbeat
from lockstep.supervise.patience import LASTING_SECONDS, Patience

NOW = datetime(2026, 11, 3, tzinfo=UTC)
LASTING = LASTING_SECONDS[Health.LAGGING]


def lagging(seconds: float, lag_bytes: int = 10) -> Heartbeat:
    return Heartbeat(
        "outbox", 1, NOW, NOW, DriverState.RUNNING, lag_seconds=seconds, lag_bytes=lag_bytes
    )


def over(patience: Patience, health: Health, at: float, beat: Heartbeat | None = None) -> bool:
    return patience.is_over(Finding(health, ""), beat, at)


@pytest.mark.parametrize("health", [one for one in Health if one.wrong])
def test_a_failure_is_acted_upon_after_its_time(health) -> None:
    patience, lasting = Patience(), LASTING_SECONDS[health]
    beat = lagging(400)
    if lasting:
        assert not over(patience, health, 0.0, beat)
        assert not over(patience, health, lasting - 0.1, beat)
    assert over(patience, health, lasting, beat)


def test_a_recovery_or_another_failure_starts_the_time_again() -> None:
    patience = Patience()
    for between in (Health.OK, Health.DEAD):
        assert not over(patience, Health.STALLED, 0.0)
        assert not over(patience, between, 10.0)
        assert not over(patience, Health.STALLED, 16.0)
    assert over(patience, Health.STALLED, 31.0)


def test_a_lag_that_gets_less_is_borne_on() -> None:
    patience = Patience()
    assert not over(patience, Health.LAGGING, 0.0, lagging(4000))
    assert not over(patience, Health.LAGGING, LASTING, lagging(3000))
    assert not over(patience, Health.LAGGING, 2 * LASTING, lagging(3000, lag_bytes=9))
    assert over(patience, Health.LAGGING, 3 * LASTING, lagging(3000, lag_bytes=9))


def test_what_is_no_failure_is_never_acted_upon() -> None:
    patience = Patience()
    for at in (0.0, 1e6):
        assert not over(patience, Health.OK, at)
