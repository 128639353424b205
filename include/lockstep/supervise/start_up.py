"""Whether modes that were started have come to work, by their driver's heartbeats."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from lockstep.settings import Settings
from lockstep.supervise.errors import StreamFailedError
from lockstep.supervise.health import error_of
from lockstep.supervise.heartbeat import DriverState, Heartbeat, read_heartbeat
from lockstep.supervise.logs import end_of_log

START_SECONDS_MAX = 300.0
"""One driver with all modes takes half a minute on two cores; under heavy load, minutes. A mode
that reads much before it works beats meanwhile, and has so long again from its last beat."""


def still_starting(
    settings: Settings, modes: Sequence[str], pid: int, since: datetime
) -> list[str]:
    """Those of the modes that do not work yet.

    pid: of their driver. since: when they were started; what it said of them before does not count.
    Raises StreamFailedError, with the end of its log, for a mode that failed, or was stopped.
    """
    return [mode for mode in modes if not _is_at_work(settings, mode, pid, since)]


def is_silent(
    settings: Settings, modes: Sequence[str], pid: int, since: datetime, seconds_max: float
) -> bool:
    """Whether none of these modes, which still start, has beaten for longer than that."""
    latest = datetime.now(UTC) - timedelta(seconds=seconds_max)
    if since > latest:
        return False
    beats = (_beat_of(settings, mode, pid, since) for mode in modes)
    return all(beat is None or beat.beat_at < latest for beat in beats)


def _is_at_work(settings: Settings, mode: str, pid: int, since: datetime) -> bool:
    beat = _beat_of(settings, mode, pid, since)
    if beat is None:
        return False
    if beat.state is DriverState.FAILED:
        raise StreamFailedError(mode, error_of(beat), end_of_log(settings, mode))
    if beat.state in (DriverState.STOPPING, DriverState.STOPPED):
        raise StreamFailedError(mode, "was stopped while it started")
    return beat.state is DriverState.RUNNING


def _beat_of(settings: Settings, mode: str, pid: int, since: datetime) -> Heartbeat | None:
    """The mode's heartbeat, if it is this driver's and not one of before."""
    beat = read_heartbeat(settings, mode)
    return beat if beat is not None and beat.pid == pid and beat.beat_at >= since else None
