"""The streams' drivers as processes: found, counted and killed. Knows nothing of what they do.

They are found by their command line and home, not by what they say of themselves.
"""

import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import psutil
from lockstep.observe import memory
from lockstep.settings import Settings
from lockstep.supervise.folder import workers
from lockstep.supervise.launcher import DRIVER
from lockstep.supervise.lease import PATIENCE_SECONDS, lease_path

SAMPLE_SECONDS = 0.5
OLD_SECONDS = 15.0
"""A driver that was refused the lease ends before this age, also on a busy machine."""
ASKING_SECONDS = 2 * PATIENCE_SECONDS
"""One that is refused a lease has it open for PATIENCE_SECONDS, on a busy machine for longer."""


def drivers(settings: Settings) -> Iterator[tuple[psutil.Process, list[str]]]:
    """The live drivers of this home, and the modes each was started with."""
    for process in psutil.process_iter():
        try:
            command = process.cmdline()
            if not set(DRIVER) <= set(command) or "java" in process.name():
                continue
            if process.environ().get("LOCKSTEP_HOME") == str(settings.home):
                yield (
                    process,
                    [mode for option, mode in pairwise(command) if option == "--mode"],
                )
        except psutil.Error:
            continue


def kill(driver: psutil.Process, part: str) -> None:
    """SIGKILL `python`, its `jvm`, or `both`. What is gone already is no error."""
    children = driver.children(recursive=True)
    jvms = [child for child in children if "java" in child.name()]
    for process in {"python": [driver], "jvm": jvms, "both": [driver, *jvms]}[part]:
        try:
            process.send_signal(signal.SIGKILL)
        except psutil.NoSuchProcess:
            continue


def resident_bytes(settings: Settings) -> int:
    """Memory of all drivers and their JVMs."""
    return sum(memory.resident_bytes(driver.pid) for driver, _ in drivers(settings))


def _hosted(settings: Settings, driver: psutil.Process) -> list[str]:
    """The workers whose lease it has open: those that joined it late, and none that it dropped.

    Who takes a lease opens it to write, who asks for its holder to read.
    """
    try:
        opened = {file.path for file in driver.open_files() if file.mode != "r"}
    except psutil.Error:
        return []
    return [one for one in workers(settings) if str(lease_path(settings, one)) in opened]


class DoublesWatch(threading.Thread):
    """Notes whenever a mode has two drivers, other than one that is just being refused."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(name="doubles-watch", daemon=True)
        self._settings = settings
        self._done = threading.Event()
        self._seen: list[str] = []
        self._failure: Exception | None = None

    def run(self) -> None:
        try:
            while not self._done.wait(SAMPLE_SECONDS):
                self._sample()
        except Exception as error:  # raised again by taken(), in the caller's thread
            self._failure = error

    def _sample(self) -> None:
        """One that is refused a lease has it open for a moment: those count that still have."""
        doubled = self._doubled()
        if doubled:
            self._done.wait(ASKING_SECONDS)
            doubled &= self._doubled()
        self._seen += [f"{mode}: {count}" for mode, count in doubled.items()]

    def _doubled(self) -> Counter[str]:
        """How many drivers have a mode, for each that more than one has."""
        now = time.time()
        old = Counter(
            mode
            for driver, _ in drivers(self._settings)
            for mode in _hosted(self._settings, driver)
            if now - driver.create_time() > OLD_SECONDS
        )
        return Counter({mode: count for mode, count in old.items() if count > 1})

    def taken(self) -> list[str]:
        """What was seen since the last call. Raises what ended the watch before its time."""
        if self._failure is not None:
            raise self._failure
        seen, self._seen = self._seen, []
        return seen

    def stop(self) -> None:
        self._done.set()
        self.join()
