"""Samples how much memory processes hold, their JVMs among them."""

import os
import threading
from collections.abc import Callable

from lockstep.observe.memory import resident_bytes

SAMPLE_SECONDS = 0.2
MIB = 1024**2


def own_bytes() -> int:
    """Of this process and its children."""
    return resident_bytes(os.getpid())


class PeakMemory:
    """The greatest resident memory seen since the start, or the last reset, in MiB.

    held: bytes held now, asked several times a second.
    """

    def __init__(self, held: Callable[[], int] = own_bytes) -> None:
        self._held = held
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._failure: Exception | None = None
        self.mib = 0.0

    def __enter__(self) -> "PeakMemory":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Raises what ended the sampling: the peak after it would be missing."""
        self._done.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def reset(self) -> None:
        self.mib = 0.0

    def _work(self) -> None:
        try:
            self._sample()
        except Exception as error:  # raised again by __exit__, in the caller's thread
            self._failure = error

    def _sample(self) -> None:
        while not self._done.wait(SAMPLE_SECONDS):
            self.mib = max(self.mib, self._held() / MIB)
