"""How often, and after what pause, a stream that failed is started again. Pure.

The first restart is at once: what was killed comes back with it. A pause is never longer than half
a minute: a stream is to be back at work within a minute after what it needs is back. The pauses and
the starts between them outlast six minutes of outage.
"""

from dataclasses import dataclass

RESTARTS_MAX = 10
FIRST_PAUSE_SECONDS = 5.0
"""Before the second restart; doubled for each one more."""
PAUSE_SECONDS_MAX = 30.0
PROVEN_SECONDS = 600.0
"""A stream that worked this long before it failed starts with a clean sheet."""


@dataclass(frozen=True)
class Restart:
    """Start it again after the pause, as the restart of this number, counted from 1."""

    number: int
    pause_seconds: float


@dataclass(frozen=True)
class GiveUp:
    """Leave it stopped; so many restarts did not help."""

    restarts: int


def after_failure(
    restarts: int, worked_seconds: float, restarts_max: int = RESTARTS_MAX
) -> Restart | GiveUp:
    """What to do about a failure after so many restarts, the last of which worked so long."""
    if worked_seconds >= PROVEN_SECONDS:
        restarts = 0
    if restarts >= restarts_max:
        return GiveUp(restarts)
    return Restart(restarts + 1, pause_seconds(restarts + 1))


def pause_seconds(number: int) -> float:
    """Before the restart of this number, counted from 1."""
    return 0.0 if number <= 1 else min(FIRST_PAUSE_SECONDS * 2 ** (number - 2), PAUSE_SECONDS_MAX)
