"""How a process that runs for months finds and gives back the memory that it no longer uses."""

import ctypes
import gc
import time

RETURN_SECONDS = 30.0
"""It takes some 10 ms, for which threads that ask for memory wait."""

NEW_OBJECTS_MAX = 20_000
"""Containers made since the last collection of cycles; Python's own figure is 700."""


def collect_less() -> None:
    """Have Python look for cycles less often, and not in what the process has made until now.

    To be called once its modules are imported: each collection of all goes through every function
    and class of theirs, which stay.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS_MAX)


class FreeMemory:
    """What the C library keeps, of this process, of memory that is free."""

    def __init__(self) -> None:
        self._returned_at = time.monotonic()

    def return_when_due(self) -> None:
        """Give it back to the system, every half a minute.

        By itself glibc gives back only what is free at the end of a heap; malloc_trim(3) finds the
        free pages before it. Other C libraries have no such function, and keep theirs.
        """
        if time.monotonic() - self._returned_at < RETURN_SECONDS:
            return
        self._returned_at = time.monotonic()
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
