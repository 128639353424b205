"""Streams of a source share a driver: the first start makes it, each later one joins it."""

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import psutil
import pytest
from lockstep.supervise import launcher, lease, source_driver
from lockstep.supervise.desired import DesiredState, read_desired, write_desired
from lockstep.supervise.driver_memory import MODE_BYTES, DriverTooLargeError, expected_bytes
from lockstep.supervise.errors import StreamBusyError, StreamFailedError
from lockstep.waiting import wait_until

SECONDS_MAX = 10.0
MODES = ("message", "outbox", "temporal")


def start(settings, *modes: str) -> int:
    return source_driver.start(settings, modes, "by a test")


def test_a_stream_joins_the_driver_that_runs(settings, starts) -> None:
    first = start(settings, "outbox")
    assert start(settings, "temporal", "message") == first
    assert {lease.holder(settings, mode) for mode in MODES} == {first}
    assert starts() == [first]
    assert read_desired(settings, "temporal").joins == first


def test_of_many_starts_at_once_one_makes_the_driver_and_the_others_join_it(
    settings, starts
) -> None:
    with ThreadPoolExecutor(len(MODES)) as pool:
        pids = set(pool.map(lambda mode: start(settings, mode), MODES))
    assert pids == set(starts())
    assert len(pids) == 1


def test_a_stream_that_stops_leaves_the_driver_to_the_others_and_may_come_back(settings) -> None:
    driver = start(settings, "outbox", "temporal")
    launcher.stop(settings, ["outbox"], "enough")
    assert lease.holder(settings, "outbox") is None
    assert start(settings, "outbox") == driver


def test_a_stream_that_runs_is_refused(settings) -> None:
    driver = start(settings, "outbox")
    with pytest.raises(StreamBusyError, match=str(driver)):
        start(settings, "outbox")


def test_one_that_fails_as_it_joins_says_so_and_leaves_the_others_alone(settings, behave) -> None:
    driver = start(settings, "outbox")
    behave("temporal", "fail")
    with pytest.raises(StreamFailedError, match="record at offset 7"):
        start(settings, "temporal")
    assert read_desired(settings, "outbox").state is DesiredState.RUNNING
    assert driver == read_desired(settings, "temporal").joins


def test_a_driver_that_ends_before_it_takes_the_stream_in_is_followed_by_a_new_one(
    settings, starts
) -> None:
    first = start(settings, "outbox")
    (settings.home / "refuses").touch()

    def end_once_asked() -> None:
        assert wait_until(lambda: read_desired(settings, "temporal") is not None, SECONDS_MAX, 0.01)
        os.kill(first, signal.SIGKILL)

    ending = threading.Thread(target=end_once_asked)
    ending.start()
    second = start(settings, "temporal")
    ending.join()
    assert starts() == [first, second]
    assert second != first


def test_a_driver_that_takes_nothing_in_is_named_at_the_deadline(settings, monkeypatch) -> None:
    driver = start(settings, "outbox")
    (settings.home / "refuses").touch()
    monkeypatch.setattr(source_driver, "START_SECONDS_MAX", 0.3)
    with pytest.raises(StreamFailedError, match=rf"source \(pid {driver}\), which runs"):
        start(settings, "temporal")
    assert lease.holder(settings, "outbox") == driver


def test_a_stream_that_joins_needs_the_memory_of_a_stream_alone(settings, monkeypatch) -> None:
    start(settings, "outbox")
    available = SimpleNamespace(available=MODE_BYTES)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: available)
    assert expected_bytes(settings, 1) > MODE_BYTES
    start(settings, "temporal")
    with pytest.raises(DriverTooLargeError):
        start(settings, "message", "lookup")
    assert read_desired(settings, "message") is None


def test_what_was_asked_of_another_process_or_before_the_start_is_not_for_this_one(
    settings,
) -> None:
    before = write_desired(settings, "outbox", DesiredState.RUNNING, "a test", joins=os.getpid())
    write_desired(settings, "temporal", DesiredState.RUNNING, "a test", joins=1)
    write_desired(settings, "message", DesiredState.STOPPED, "a test", joins=os.getpid())
    later = write_desired(settings, "lookup", DesiredState.RUNNING, "a test", joins=os.getpid())
    assert source_driver.asked(settings, before.changed_at) == {"lookup": later}
