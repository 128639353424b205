"""Looks after a stream's table next to its writer: a compaction holds no commit up."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from lockstep.faults import in_mode


class Upkeep:
    """In a thread of its own, one look at a time."""

    def __init__(self, name: str, maintain: Callable[[], object]) -> None:
        """maintain: does what is due, if anything is; safe while rows are written."""
        self._maintain = maintain
        self._pool = ThreadPoolExecutor(1, f"{name} upkeep", in_mode, (name,))
        self._look: Future | None = None

    def look_after(self) -> None:
        """See what is due, unless that is under way. Raises what the look before came to."""
        if self._look is not None:
            if not self._look.done():
                return
            self._look.result()
        self._look = self._pool.submit(self._maintain)

    def end(self) -> None:
        """Wait for the look under way; what it comes to is not reported any more."""
        self._pool.shutdown(wait=True)
