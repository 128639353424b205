"""Keeps a stream in its desired state: starts it, and starts it again, in any state it is found.

Streams that fell with the driver they shared come back in one, whichever of their keepers is first:
a driver is a JVM, and five that start at once on two cores took two and a half minutes.

Each function may be called again at any time, by several at once: none doubles a stream.
"""

from lockstep.errors import StreamError
from lockstep.model.modes import PUBLISHER
from lockstep.settings import Settings
from lockstep.supervise import launcher, lease, source_driver
from lockstep.supervise.desired import DesiredState, read_desired, write_desired
from lockstep.supervise.errors import StreamBusyError
from lockstep.supervise.folder import workers
from lockstep.supervise.health import Health
from lockstep.supervise.observation import Observation, observe
from lockstep.supervise.restart_policy import RESTARTS_MAX, GiveUp, Restart, after_failure


def ensure_running(settings: Settings, mode: str, desired_by: str, restarts: int = 0) -> bool:
    """Set the desired state to running, and start the mode unless it runs; returns whether it was
    started.

    A driver that runs is left alone, whichever keeper started it. restarts: how many this keeper
    counted; 0 leaves the count as it is. Raises StreamFailedError, and StreamBusyError when the
    mode is held by what is no driver, such as a rebuild: that is not interrupted.
    """
    seen = observe(settings, mode)
    if seen.holder is not None and not _is_to_stop(seen):
        restarts = restarts or (seen.desired.restarts if seen.desired else 0)
        write_desired(settings, mode, DesiredState.RUNNING, desired_by, restarts)
        return False
    if seen.holder is not None:
        if seen.heartbeat is None or seen.heartbeat.pid != seen.holder:  # drivers beat at once
            raise StreamBusyError(mode, seen.holder)
        launcher.stop(settings, [mode], seen.desired.reason)  # let it finish stopping
    start = launcher.start if mode == PUBLISHER else source_driver.start
    for also in (_fell_with(settings, seen), []):
        try:
            start(settings, [mode], desired_by, restarts, also)
        except StreamBusyError:
            if lease.holder(settings, mode) is not None:  # someone else started it in the meantime
                return ensure_running(settings, mode, desired_by, restarts)
        else:
            return True
    return False


def restart(settings: Settings, mode: str, desired_by: str, restarts: int) -> bool:
    """Start the mode again if it is not well; returns whether that was done.

    Not if its desired state became stopped meanwhile. Raises as ensure_running does, and
    StreamNotStoppedError.
    """
    seen = observe(settings, mode)
    if _is_to_stop(seen):
        return False
    if seen.holder is not None and seen.finding.health.wrong:
        reason = f"is started again: it {seen.finding.why}"
        launcher.stop(settings, [mode], reason)  # may take minutes
        desired = read_desired(settings, mode)
        if desired.state is DesiredState.STOPPED and desired.reason != reason:
            return False
    return ensure_running(settings, mode, desired_by, restarts)


def next_step(seen: Observation, restarts_max: int = RESTARTS_MAX) -> Restart | GiveUp:
    """What to do about a stream that failed, by its files."""
    restarts = seen.desired.restarts if seen.desired else 0
    error = (
        seen.heartbeat.error if seen.heartbeat and seen.finding.health is Health.FAILED else None
    )
    if error is not None and not error.restart_helps:
        return GiveUp(restarts)
    return after_failure(restarts, worked_seconds(seen), restarts_max)


def worked_seconds(seen: Observation) -> float:
    """How long the driver did its work before it failed; none of a lagging one's time counts."""
    beat = seen.heartbeat
    if beat is None or (seen.desired and beat.beat_at < seen.desired.changed_at):
        return 0.0
    if seen.finding.health is Health.LAGGING:
        return 0.0
    until = beat.beat_at
    if seen.finding.health is Health.STALLED:
        until = beat.last_progress_at or beat.started_at
    return (until - beat.started_at).total_seconds()


def _fell_with(settings: Settings, seen: Observation) -> list[str]:
    """The other modes of its last driver that ended, too, and that a restart may help as well.

    Also those whose own keeper is about to start them, so that all keepers ask for the same driver
    and one of these gets every lease; of different ones each could keep the others from theirs.
    """
    if seen.heartbeat is None:
        return []
    driver = (seen.heartbeat.pid, seen.heartbeat.driver_started_at)
    others = [_seen(settings, worker) for worker in workers(settings) if worker != seen.mode]
    return [
        other.mode
        for other in others
        if other is not None
        and other.holder is None
        and other.finding.health in (Health.DEAD, Health.FAILED, Health.STARTING)
        and isinstance(next_step(other), Restart)
        and other.heartbeat is not None
        and (other.heartbeat.pid, other.heartbeat.driver_started_at) == driver
    ]


def _seen(settings: Settings, mode: str) -> Observation | None:
    """None when the mode's files are damaged: its own keeper reports that, others go on."""
    try:
        return observe(settings, mode)
    except StreamError:
        return None


def _is_to_stop(seen: Observation) -> bool:
    return seen.desired is not None and seen.desired.state is DesiredState.STOPPED
