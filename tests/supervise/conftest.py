"""A home, and drivers without Spark in it that are all ended with the test."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from lockstep.model.modes import StreamMode
from lockstep.settings import Settings
from lockstep.supervise import launcher, lease
from lockstep.supervise.folder import mode_folder

FAKE_DRIVER = Path(__file__).with_name("fake_driver.py")


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    """Settings of an empty home, where the launcher starts the fake driver."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("LOCKSTEP_HOME", str(home))
    monkeypatch.setattr(launcher, "DRIVER", (str(FAKE_DRIVER),))
    settings = Settings.load()
    yield settings
    for mode in StreamMode:
        if (pid := lease.holder(settings, mode)) not in (None, os.getpid()):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def behave(settings: Settings) -> Callable[[str, str], None]:
    """Tell the drivers of a mode how to behave (fake_driver.py)."""

    def tell(mode: str, script: str) -> None:
        folder = mode_folder(settings, mode)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "behaviour").write_text(script)

    return tell


@pytest.fixture
def starts(settings: Settings) -> Callable[[], list[int]]:
    """The pids of all drivers that took their leases, in order."""
    path = settings.home / "starts"
    return lambda: [int(pid) for pid in path.read_text().split()] if path.exists() else []
