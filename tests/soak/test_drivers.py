"""Drivers are found by command line and home; two of one mode are seen, and each can be killed."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from lockstep.model.modes import StreamMode
from lockstep.settings import Settings
from lockstep.supervise.lease import lease_path
from lockstep_tools.soak import drivers

from tests.soak.change_log_tables import settings_of

SECONDS_MAX = 10
SCRIPT = """
import os, sys, time
kept = [mode for mode in sys.argv[2::2] if mode not in os.environ["DROPPED"].split()]
streams = f"{os.environ['LOCKSTEP_HOME']}/streams/orders_enriched__"
files = [open(f"{streams}{mode}/lease.lock", os.environ["OPENS"]) for mode in kept]
print("they are open", flush=True)
time.sleep(60)
"""
Start = Callable[..., subprocess.Popen]


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    script = tmp_path / "driver.py"
    script.write_text(SCRIPT)
    monkeypatch.setattr(drivers, "DRIVER", (str(script),))
    settings = settings_of(tmp_path)
    for mode in StreamMode:
        lease_path(settings, mode).parent.mkdir(parents=True)
    return settings


@pytest.fixture
def start(settings: Settings) -> Iterator[Start]:
    """Starts a process that looks like a driver of these modes."""
    started: list[subprocess.Popen] = []

    def begin(
        *modes: str, home: Path = settings.home, dropped: str = "", opens: str = "a"
    ) -> subprocess.Popen:
        for mode in modes:
            (home / "streams" / f"orders_enriched__{mode}").mkdir(parents=True, exist_ok=True)
        options = [option for mode in modes for option in ("--mode", mode)]
        command = [sys.executable, *drivers.DRIVER, *options]
        given = {"LOCKSTEP_HOME": str(home), "DROPPED": dropped, "OPENS": opens}
        process = subprocess.Popen(command, env=os.environ | given, stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout.readline() == b"they are open\n"
        return process

    yield begin
    for one in started:
        one.kill()
        one.communicate()


def modes_found(settings: Settings, count: int) -> list[list[str]]:
    """Once there are that many: a process is another one until it has executed its program."""
    deadline = time.monotonic() + SECONDS_MAX
    while len(found := [modes for _, modes in drivers.drivers(settings)]) < count:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return sorted(found)


def seen(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the watch has seen once it has looked twice."""
    looked = threading.Semaphore(0)
    look = drivers.DoublesWatch._sample

    def counted(watch: drivers.DoublesWatch) -> None:
        look(watch)
        looked.release()

    monkeypatch.setattr(drivers, "SAMPLE_SECONDS", 0.05)
    monkeypatch.setattr(drivers.DoublesWatch, "_sample", counted)
    watch = drivers.DoublesWatch(settings)
    watch.start()
    assert all(looked.acquire(timeout=SECONDS_MAX) for _ in range(2))
    watch.stop()
    return watch.taken()


def test_drivers_of_this_home_are_found_with_their_modes(
    settings: Settings, start: Start, tmp_path: Path
) -> None:
    start("outbox", "temporal")
    start("outbox", home=tmp_path / "other")
    start("lookup")
    assert modes_found(settings, 2) == [["lookup"], ["outbox", "temporal"]]
    assert drivers.resident_bytes(settings) > 0


def test_a_killed_driver_is_gone(settings: Settings, start: Start) -> None:
    process = start("outbox")
    modes_found(settings, 1)
    (found,) = drivers.drivers(settings)
    drivers.kill(found[0], "python")
    assert process.wait(SECONDS_MAX) == -9
    assert list(drivers.drivers(settings)) == []


@pytest.mark.parametrize(
    ("others", "dropped", "doubled"),
    [
        (["temporal"], "", False),
        (["temporal", "outbox"], "", True),
        (["temporal", "outbox"], "outbox", False),
    ],
)
def test_a_mode_with_two_drivers_is_seen(
    settings: Settings,
    start: Start,
    monkeypatch: pytest.MonkeyPatch,
    others: list[str],
    dropped: str,
    doubled: bool,
) -> None:
    monkeypatch.setattr(drivers, "OLD_SECONDS", 0.0)
    start("outbox")
    start(*others, dropped=dropped)
    modes_found(settings, 2)
    assert (seen(settings, monkeypatch)[:1] == ["outbox: 2"]) is doubled


def test_a_driver_that_asks_who_has_a_mode_is_no_double(
    settings: Settings, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drivers, "OLD_SECONDS", 0.0)
    lease_path(settings, StreamMode.OUTBOX).touch()
    for opens in ("a", "r"):
        start("outbox", opens=opens)
    modes_found(settings, 2)
    assert seen(settings, monkeypatch) == []


def test_a_driver_that_is_just_being_refused_is_no_double(
    settings: Settings, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    start("outbox")
    start("outbox")
    modes_found(settings, 2)
    assert seen(settings, monkeypatch) == []
