"""The three files of a mode: the desired state, the lease, the heartbeat."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from lockstep.errors import StreamError
from lockstep.settings import Settings
from lockstep.supervise import lease
from lockstep.supervise.desired import Desired, DesiredState, read_desired, write_desired
from lockstep.supervise.errors import StreamBusyError
from lockstep.supervise.folder import mode_folder
from lockstep.supervise.heartbeat import (
    DriverState,
    Heartbeat,
    HeartbeatError,
    IncompleteTransaction,
    Latency,
    Percentiles,
    heartbeat_path,
    read_heartbeat,
    write_heartbeat,
)

MODE = "outbox"
NOW = datetime(2026, 11, 3, 12, 0, 0, 250_000, tzinfo=UTC)
FIRST_BEAT = Heartbeat(MODE, 4711, NOW, NOW, DriverState.STARTING)
FULL = Heartbeat(
    mode=MODE,
    pid=4711,
    driver_started_at=NOW,
    beat_at=NOW,
    state=DriverState.FAILED,
    error=HeartbeatError("PoisonedRecordError", "offset 7 cannot be read", restart_helps=False),
    frontier=2**40,
    frontier_committed_at=NOW,
    next_offset=7,
    end_offset=9,
    last_progress_at=NOW,
    rows_total=3,
    rows_per_second=1.5,
    lag_bytes=100,
    lag_seconds=0.25,
    latency=Latency(0.1, 0.2, 0.3, {"capture": Percentiles(0.01, 0.02, 0.03)}),
    micro_batch_seconds=0.11,
    state_rows=12,
    driver_memory_bytes=3400,
    incomplete=(IncompleteTransaction(2**33, 12.5, 2, 5, {"orders": 3}),),
)
"""No field has its default."""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home")


def test_a_desired_state_is_read_back_as_written(settings) -> None:
    assert read_desired(settings, MODE) is None
    written = write_desired(settings, MODE, DesiredState.RUNNING, "by a test", restarts=2)
    assert read_desired(settings, MODE) == written
    assert written == Desired(DesiredState.RUNNING, "by a test", written.changed_at, 2)
    assert read_desired(settings, "temporal") is None


def test_a_damaged_desired_state_is_named(settings) -> None:
    write_desired(settings, MODE, DesiredState.STOPPED, "by a test")
    path = mode_folder(settings, MODE) / "desired.json"
    unknown = b'{"state": "paused", "reason": "", "changed_at": "2026-01-01T00:00:00Z"}'
    for damage in (unknown, b"{", b'{"state": "\xff"}'):
        path.write_bytes(damage)
        with pytest.raises(StreamError, match=rf"{path} is damaged .*stream start {MODE}"):
            read_desired(settings, MODE)


@pytest.mark.parametrize("heartbeat", [FIRST_BEAT, FULL], ids=["first", "full"])
def test_a_heartbeat_is_read_back_as_written(settings, heartbeat) -> None:
    assert read_heartbeat(settings, MODE) is None
    write_heartbeat(settings, heartbeat)
    assert read_heartbeat(settings, MODE) == heartbeat
    assert os.listdir(mode_folder(settings, MODE)) == ["heartbeat.json"]


def test_a_heartbeat_of_a_later_version_is_read(settings) -> None:
    write_heartbeat(settings, FULL)
    path = heartbeat_path(settings, MODE)
    path.write_text(json.dumps({**json.loads(path.read_text()), "mood": "good"}))
    assert read_heartbeat(settings, MODE) == FULL


def test_a_heartbeat_that_a_crash_of_the_machine_emptied_is_none(settings) -> None:
    write_heartbeat(settings, FULL)
    heartbeat_path(settings, MODE).write_text("")
    assert read_heartbeat(settings, MODE) is None


def test_a_damaged_heartbeat_is_named(settings) -> None:
    write_heartbeat(settings, FULL)
    for damage in (b'{"mode": "outbox"}', b'{"mode": "\xff"}'):
        heartbeat_path(settings, MODE).write_bytes(damage)
        with pytest.raises(StreamError, match=r"heartbeat\.json is damaged"):
            read_heartbeat(settings, MODE)


def test_a_leased_mode_is_refused_and_other_modes_are_free(settings) -> None:
    assert lease.holder(settings, MODE) is None
    with lease.acquire(settings, MODE) as held:
        assert lease.holder(settings, MODE) == os.getpid()
        assert os.get_inheritable(held.fileno())
        with pytest.raises(StreamBusyError, match=rf"outbox .*pid {os.getpid()}.*stop outbox"):
            lease.acquire(settings, MODE)
        lease.acquire(settings, "temporal").release()
    assert lease.holder(settings, MODE) is None


def test_a_home_without_rights_is_named(tmp_path) -> None:
    (tmp_path / "home").touch()
    with pytest.raises(StreamError, match="cannot be opened"):
        lease.acquire(Settings(home=tmp_path / "home"), MODE)
