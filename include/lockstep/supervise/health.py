"""Judges a stream by its desired state, its lease and its last heartbeat. Pure: no files, no clock.

Looking at the files is observation.py's; acting on a judgement is the launcher's and Airflow's.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from lockstep.supervise.desired import Desired, DesiredState
from lockstep.supervise.heartbeat import DriverState, Heartbeat

MIB = 1024**2


class Health(StrEnum):
    """OK, STARTING and STOPPED are as they should be; the others are failures."""

    OK = "ok"
    STARTING = "starting"
    STOPPED = "stopped"
    DEAD = "dead"
    FAILED = "failed"
    STALLED = "stalled"
    LAGGING = "lagging"

    @property
    def wrong(self) -> bool:
        """The stream should run, and does not, or does not do its work."""
        return self not in (Health.OK, Health.STARTING, Health.STOPPED)


@dataclass(frozen=True)
class Finding:
    """A judgement, and one sentence for people that says why."""

    health: Health
    why: str


@dataclass(frozen=True)
class Limits:
    """Beyond these a stream that should work is not well."""

    lease_seconds_max: float = 30.0
    """From the desired state to the driver's lease: Python's imports, on a busy machine."""
    starting_seconds_max: float = 300.0
    """From the driver's start to its first write: Spark's session is 7 s on an idle machine,
    and folding a long history again takes its time."""
    beat_seconds_max: float = 90.0
    """The driver beats every second, but not within the longest write, nor while another of
    its modes starts."""
    stalled_seconds_max: float = 300.0
    """The longest write, of a transaction of a million changes, takes a minute or two."""
    waiting_records_max: int = 10
    """At the end of the topic stand Kafka's own markers, which are no input. Where there is input
    there soon is more: the connector's heartbeats alone exceed this within a minute."""
    lag_seconds_max: float = 300.0
    lag_bytes_max: int = 1024 * MIB
    """A quarter of the WAL that is kept for the slot: beyond that, changes are lost."""


LIMITS = Limits()


def health(
    desired: Desired | None,
    holder: int | None,
    heartbeat: Heartbeat | None,
    now: datetime,
    limits: Limits = LIMITS,
) -> Finding:
    """The stream's health at `now`; `holder` is the pid with its lease, None when that is free."""
    if holder is None:
        return _without_driver(desired, heartbeat, now, limits)
    if desired is not None and desired.state is DesiredState.STOPPED:
        return Finding(Health.STOPPED, f"is stopping ({desired.reason})")
    if heartbeat is None or heartbeat.pid != holder:
        return _before_the_first_beat(desired, holder, now, limits)
    return _by_its_heartbeat(heartbeat, now, limits)


def _without_driver(
    desired: Desired | None, heartbeat: Heartbeat | None, now: datetime, limits: Limits
) -> Finding:
    if desired is None:
        return Finding(Health.STOPPED, "was never started")
    if desired.state is DesiredState.STOPPED:
        return Finding(Health.STOPPED, desired.reason)
    has_beaten_since = heartbeat is not None and heartbeat.beat_at >= desired.changed_at
    desired_seconds = (now - desired.changed_at).total_seconds()
    if not has_beaten_since and desired_seconds < limits.lease_seconds_max:
        return Finding(Health.STARTING, "its driver is being started")
    if not has_beaten_since:
        return Finding(
            Health.DEAD, f"no driver runs it, {desired_seconds:.0f} s after it was asked for"
        )
    if heartbeat.state is DriverState.FAILED:
        return Finding(Health.FAILED, error_of(heartbeat))
    return Finding(
        Health.DEAD,
        f"its driver (pid {heartbeat.pid}) has ended without an error; "
        f"its last heartbeat is {_age(heartbeat.beat_at, now):.0f} s old",
    )


def _before_the_first_beat(
    desired: Desired | None, holder: int, now: datetime, limits: Limits
) -> Finding:
    waited_seconds = _age(desired.changed_at, now) if desired else 0.0
    if waited_seconds > limits.starting_seconds_max:
        return Finding(
            Health.STALLED, f"pid {holder} took it {waited_seconds:.0f} s ago and never beat"
        )
    return Finding(Health.STARTING, f"its driver (pid {holder}) starts")


def _by_its_heartbeat(heartbeat: Heartbeat, now: datetime, limits: Limits) -> Finding:
    """Of a driver that holds the lease and has published a heartbeat."""
    if heartbeat.state is DriverState.FAILED:
        return Finding(Health.FAILED, error_of(heartbeat))
    if heartbeat.state is DriverState.STARTING:
        return _starting(heartbeat, now, limits)
    beat_seconds = _age(heartbeat.beat_at, now)
    if beat_seconds > limits.beat_seconds_max:
        return Finding(
            Health.STALLED,
            f"its driver (pid {heartbeat.pid}) has not beaten for {beat_seconds:.0f} s",
        )
    if heartbeat.state in (DriverState.STOPPING, DriverState.STOPPED):
        return Finding(Health.DEAD, f"its driver (pid {heartbeat.pid}) was asked to end, and ends")
    return _at_work(heartbeat, now, limits)


def _starting(heartbeat: Heartbeat, now: datetime, limits: Limits) -> Finding:
    seconds = _age(heartbeat.started_at, now)
    if _age(heartbeat.beat_at, now) > limits.starting_seconds_max:
        return Finding(Health.STALLED, f"has been starting for {seconds:.0f} s")
    return Finding(Health.STARTING, f"has been starting for {seconds:.0f} s")


def _at_work(heartbeat: Heartbeat, now: datetime, limits: Limits) -> Finding:
    waiting = (heartbeat.end_offset or 0) - (heartbeat.next_offset or 0)
    still_seconds = _age(heartbeat.last_progress_at or heartbeat.started_at, now)
    if waiting > limits.waiting_records_max and still_seconds > limits.stalled_seconds_max:
        return Finding(
            Health.STALLED,
            f"has made no progress for {still_seconds:.0f} s while {waiting:,} records wait, "
            f"from offset {heartbeat.next_offset} on",
        )
    lag = describe_lag(heartbeat)
    if (heartbeat.lag_seconds or 0.0) > limits.lag_seconds_max:
        return Finding(
            Health.LAGGING, f"is {lag} behind, beyond the limit of {limits.lag_seconds_max:.0f} s"
        )
    if (heartbeat.lag_bytes or 0) > limits.lag_bytes_max:
        return Finding(
            Health.LAGGING,
            f"is {lag} behind, beyond the limit of {limits.lag_bytes_max / MIB:,.0f} MiB",
        )
    return Finding(Health.OK, f"is {lag} behind" if lag else "runs")


def describe_lag(heartbeat: Heartbeat) -> str:
    """Seconds and bytes as far as they are known, e.g. `0.3 s (0.1 MiB)`; else empty."""
    seconds = "" if heartbeat.lag_seconds is None else f"{heartbeat.lag_seconds:,.1f} s"
    mib = "" if heartbeat.lag_bytes is None else f"{heartbeat.lag_bytes / MIB:,.1f} MiB"
    return f"{seconds} ({mib})" if seconds and mib else seconds or mib


def error_of(heartbeat: Heartbeat) -> str:
    """The error that ended the mode, as `Name: message`, its first line."""
    if heartbeat.error is None:
        return "its driver failed without naming an error"
    first_line = heartbeat.error.message.strip().partition("\n")[0]
    return f"{heartbeat.error.name}: {first_line}"


def _age(moment: datetime, now: datetime) -> float:
    return (now - moment).total_seconds()
