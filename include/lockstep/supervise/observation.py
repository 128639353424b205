"""Looks at a stream's files once and judges what it saw. Changes nothing."""

from dataclasses import dataclass
from datetime import UTC, datetime

from lockstep.settings import Settings
from lockstep.supervise import lease
from lockstep.supervise.desired import Desired, desired_path, read_desired
from lockstep.supervise.folder import workers
from lockstep.supervise.health import LIMITS, Finding, Limits, health
from lockstep.supervise.heartbeat import Heartbeat, read_heartbeat


@dataclass(frozen=True)
class Observation:
    """What was seen of one mode at `at`; `holder` is the pid with the lease."""

    mode: str
    at: datetime
    desired: Desired | None
    holder: int | None
    heartbeat: Heartbeat | None
    finding: Finding


def observe(settings: Settings, mode: str, limits: Limits = LIMITS) -> Observation:
    """Look once. Raises StreamError for a damaged file, OSError for one that cannot be read."""
    # The lease first: a driver's last heartbeat is written before it gives the lease up.
    holder = lease.holder(settings, mode)
    desired = read_desired(settings, mode)
    heartbeat = read_heartbeat(settings, mode)
    at = datetime.now(UTC)
    finding = health(desired, holder, heartbeat, at, limits)
    return Observation(mode, at, desired, holder, heartbeat, finding)


def observe_started(settings: Settings) -> list[Observation]:
    """All workers that were ever started. Raises as `observe` does."""
    seen = [observe(settings, worker) for worker in workers(settings)]
    return [one for one in seen if one.desired is not None or one.holder is not None]


def running_workers(settings: Settings) -> list[str]:
    """The workers with a desired state whose lease a process holds.

    A source's history has none of its own: it runs as long as a driver that hosts it.
    """
    return [
        worker
        for worker in workers(settings)
        if desired_path(settings, worker).exists() and lease.holder(settings, worker) is not None
    ]
