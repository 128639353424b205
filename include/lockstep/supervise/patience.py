"""Which findings are to be acted upon: those that last. Pure, but for what it saw before."""

from dataclasses import dataclass

from lockstep.supervise.health import Finding, Health
from lockstep.supervise.heartbeat import Heartbeat

LASTING_SECONDS = {
    Health.DEAD: 2.0,  # the files of a mode are not read in one instant
    Health.FAILED: 0.0,
    Health.STALLED: 15.0,  # the first record after a quiet hour waits for a moment
    Health.LAGGING: 600.0,  # unless it gets less: after an outage there is much to catch up
}


@dataclass(frozen=True)
class _Since:
    health: Health
    at_seconds: float
    lag: tuple[float, int]


class Patience:
    """One watch over one stream."""

    def __init__(self) -> None:
        self._since: _Since | None = None

    def is_over(self, finding: Finding, heartbeat: Heartbeat | None, at_seconds: float) -> bool:
        """Whether what was found, at this monotonic second, has lasted long enough to act.

        A lag that has become less, within the time that one is borne, is borne that long again.
        """
        if not finding.health.wrong:
            self._since = None
            return False
        seen = _Since(finding.health, at_seconds, _lag(heartbeat))
        if self._since is None or self._since.health is not finding.health:
            self._since = seen
        if at_seconds - self._since.at_seconds < LASTING_SECONDS[finding.health]:
            return False
        if finding.health is Health.LAGGING and _is_less(seen.lag, self._since.lag):
            self._since = seen
            return False
        return True


def _lag(heartbeat: Heartbeat | None) -> tuple[float, int]:
    return (
        (0.0, 0) if heartbeat is None else (heartbeat.lag_seconds or 0.0, heartbeat.lag_bytes or 0)
    )


def _is_less(now: tuple[float, int], then: tuple[float, int]) -> bool:
    """In seconds or in bytes: while orders pour in, the one may shrink before the other."""
    return now[0] < then[0] or now[1] < then[1]
