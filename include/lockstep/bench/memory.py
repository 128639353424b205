"""Samples how much memory this process and its children hold, the JVM among them."""

import threading

import psutil

SAMPLE_SECONDS = 0.2
MIB = 1024**2


class PeakMemory:
    """The greatest resident memory seen since the start, or the last reset, in MiB."""

    def __init__(self) -> None:
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self.mib = 0.0

    def __enter__(self) -> "PeakMemory":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def reset(self) -> None:
        self.mib = 0.0

    def _sample(self) -> None:
        own = psutil.Process()
        while not self._done.wait(SAMPLE_SECONDS):
            self.mib = max(self.mib, _resident_mib(own))


def _resident_mib(process: psutil.Process) -> float:
    total = 0
    for member in [process, *process.children(recursive=True)]:
        try:
            total += member.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total / MIB
