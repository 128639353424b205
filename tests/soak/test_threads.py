"""What a soak or a benchmark watches in a thread cannot cease unseen: its user gets the error."""

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from lockstep.model.modes import StreamMode
from lockstep.settings import Settings
from lockstep_tools.bench.memory import PeakMemory
from lockstep_tools.soak import drivers, guard, open_transactions
from lockstep_tools.soak.drivers import DoublesWatch
from lockstep_tools.soak.guard import Guard
from lockstep_tools.soak.open_transactions import Writer

SECONDS_MAX = 10


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home")


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def raise_defect(*_: object) -> None:
    raise ValueError("a defect")


def test_a_guard_notes_a_defect_and_goes_on(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(guard, "observe", raise_defect)
    one = Guard(settings, [StreamMode.OUTBOX])
    one.start()
    wait_for(lambda: len(one._findings) > 1)
    one.stop()
    assert {found.text for found in one.taken()} == {"ValueError('a defect')"}


def test_a_watch_for_doubles_that_ended_is_no_good_news(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drivers, "SAMPLE_SECONDS", 0.01)
    monkeypatch.setattr(drivers, "drivers", raise_defect)
    watch = DoublesWatch(settings)
    watch.start()
    watch.join(SECONDS_MAX)
    with pytest.raises(ValueError, match="a defect"):
        watch.taken()


def test_a_writer_that_ended_is_missed_when_it_is_stopped(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_transactions, "OpenTransaction", raise_defect)
    writer = Writer(settings, "label", random.Random(1))
    writer.start()
    with pytest.raises(ValueError, match="a defect"):
        writer.stop()


def test_a_peak_of_memory_that_was_not_sampled_to_the_end_is_none() -> None:
    with pytest.raises(ValueError, match="a defect"), PeakMemory(raise_defect) as peak:
        wait_for(lambda: not peak._thread.is_alive())
