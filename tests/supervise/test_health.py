"""Each way in which a stream is well or not, and the sentence that says why."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from lockstep.supervise.desired import Desired, DesiredState
from lockstep.supervise.health import MIB, Health, health
from lockstep.supervise.heartbeat import DriverState, Heartbeat, HeartbeatError

NOW = datetime(2026, 11, 3, 12, tzinfo=UTC)
PID = 4711
DESIRED = Desired(DesiredState.RUNNING, "by hand", NOW - timedelta(hours=2))
UNDESIRED = Desired(DesiredState.STOPPED, "enough", NOW)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


BEAT = Heartbeat(
    mode="outbox",
    pid=PID,
    driver_started_at=ago(3600),
    beat_at=ago(1),
    state=DriverState.RUNNING,
    next_offset=100,
    end_offset=100,
    last_progress_at=ago(2),
    lag_bytes=MIB // 2,
    lag_seconds=0.25,
)
FAILED = replace(
    BEAT, state=DriverState.FAILED, error=HeartbeatError("PoisonedRecordError", "offset 7")
)


@pytest.mark.parametrize(
    ("desired", "holder", "beat", "expected", "why"),
    [
        (None, None, None, Health.STOPPED, "was never started"),
        (UNDESIRED, None, BEAT, Health.STOPPED, "enough"),
        (UNDESIRED, PID, BEAT, Health.STOPPED, "is stopping (enough)"),
        (UNDESIRED, None, FAILED, Health.STOPPED, "enough"),
        (DESIRED, PID, BEAT, Health.OK, "is 0.2 s (0.5 MiB) behind"),
        (None, PID, BEAT, Health.OK, "is 0.2 s (0.5 MiB) behind"),
        (DESIRED, None, BEAT, Health.DEAD, "ended without an error"),
        (DESIRED, None, FAILED, Health.FAILED, "PoisonedRecordError: offset 7"),
        (DESIRED, PID, FAILED, Health.FAILED, "PoisonedRecordError: offset 7"),
        (DESIRED, None, None, Health.DEAD, "no driver runs it, 7200 s after it was asked for"),
        (DESIRED, PID, None, Health.STALLED, "never beat"),
    ],
)
def test_desired_state_lease_and_last_heartbeat_decide(
    desired, holder, beat, expected, why
) -> None:
    found = health(desired, holder, beat, NOW)
    assert found.health is expected
    assert why in found.why


@pytest.mark.parametrize(
    ("change", "expected", "why"),
    [
        ({"beat_at": ago(89)}, Health.OK, "behind"),
        ({"beat_at": ago(91)}, Health.STALLED, "has not beaten for 91 s"),
        (
            {"state": DriverState.STARTING, "beat_at": ago(301)},
            Health.STALLED,
            "has been starting for 3600 s",
        ),
        (
            {"state": DriverState.STARTING},  # and writes what it begins with, so that it beats
            Health.STARTING,
            "has been starting for 3600 s",
        ),
        (
            {"state": DriverState.STARTING, "driver_started_at": ago(20)},
            Health.STARTING,
            "has been starting for 20 s",
        ),
        (
            {"state": DriverState.STARTING, "stream_started_at": ago(20)},  # it joined the driver
            Health.STARTING,
            "has been starting for 20 s",
        ),
        ({"state": DriverState.STOPPING}, Health.DEAD, "was asked to end"),
        ({"state": DriverState.STOPPED}, Health.DEAD, "was asked to end"),
        ({"last_progress_at": ago(7000)}, Health.OK, "behind"),  # nothing waits
        ({"last_progress_at": ago(299), "end_offset": 111}, Health.OK, "behind"),
        ({"last_progress_at": ago(7000), "end_offset": 110}, Health.OK, "behind"),  # but markers
        (
            {"last_progress_at": ago(301), "end_offset": 1101},
            Health.STALLED,
            "has made no progress for 301 s while 1,001 records wait, from offset 100 on",
        ),
        ({"last_progress_at": None, "end_offset": 111}, Health.STALLED, "for 3600 s"),
        ({"lag_seconds": 300.0}, Health.OK, "300.0 s"),
        ({"lag_seconds": 301.0}, Health.LAGGING, "is 301.0 s (0.5 MiB) behind, beyond"),
        ({"lag_bytes": 1025 * MIB}, Health.LAGGING, "(1,025.0 MiB) behind, beyond"),
        ({"lag_bytes": None, "lag_seconds": None}, Health.OK, "runs"),
        ({"pid": PID + 1}, Health.STALLED, "never beat"),
    ],
)
def test_what_the_driver_says_decides(change, expected, why) -> None:
    found = health(DESIRED, PID, replace(BEAT, **change), NOW)
    assert found.health is expected
    assert why in found.why


@pytest.mark.parametrize("last_heartbeat", [None, BEAT, FAILED])
@pytest.mark.parametrize("holder", [None, PID + 1])
def test_between_the_desired_state_and_the_first_heartbeat_it_starts(
    holder, last_heartbeat
) -> None:
    """The last heartbeat of the driver before is not this one's."""
    just_changed = replace(DESIRED, changed_at=ago(0.5))
    assert health(just_changed, holder, last_heartbeat, NOW).health is Health.STARTING


def test_only_failures_are_wrong() -> None:
    assert {one for one in Health if not one.wrong} == {
        Health.OK,
        Health.STARTING,
        Health.STOPPED,
    }
