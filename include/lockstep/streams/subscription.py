"""What a reader has found, on its way to one stream: a queue with a bound."""

import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from lockstep.cdc.records import Stray
from lockstep.streams.runner import Position
from lockstep.streams.writer import Resumable

QUEUED_CHANGES_MAX = 50_000
"""Changes that wait for one stream: some 50 MB, shared by all streams for which they wait."""


class Release(NamedTuple):
    """What was found in one reading, its rows not read yet.

    transactions: whole, in commit order. stray: a message outside of transactions, before them.
    position: after them. seen_us: when their last record had been read.
    """

    transactions: Sequence[Resumable]
    stray: Stray | None
    position: Position
    seen_us: int

    @property
    def changes_held(self) -> int:
        """Its changes and transactions; one that is too large for memory fills a queue."""
        return sum(
            QUEUED_CHANGES_MAX if one.changes is None else 1 + len(one.changes)
            for one, _ in self.transactions
        )


class Subscription:
    """Of one stream to a reader: filled by the reader's thread, emptied by the stream's."""

    def __init__(self, position: Position) -> None:
        """position: where the stream is as it comes to the reader."""
        self._changed = threading.Condition()
        self._releases: deque[Release] = deque()
        self._changes = 0
        self._full_since: float | None = None
        self._in_hand: Position | None = None
        self._done = self._newest = position
        self._is_over = False
        self._error: BaseException | None = None

    @property
    def is_full(self) -> bool:
        return self._full_since is not None

    @property
    def full_seconds(self) -> float:
        """For how long it has been full; 0 while it has room."""
        since = self._full_since
        return 0.0 if since is None else time.monotonic() - since

    @property
    def is_over(self) -> bool:
        return self._is_over

    @property
    def position(self) -> Position:
        """Up to where the stream has dealt with everything; any thread may ask."""
        with self._changed:
            is_idle = not self._releases and self._in_hand is None
            return self._newest if is_idle else self._done

    def put(self, release: Release) -> None:
        with self._changed:
            self._newest = release.position
            if release.transactions or release.stray is not None:
                self._releases.append(release)
                self._changes += release.changes_held
                if self._changes >= QUEUED_CHANGES_MAX and not self.is_full:
                    self._full_since = time.monotonic()
                self._changed.notify_all()

    def end(self, error: BaseException | None = None) -> None:
        """Nothing comes any more: after an error, or since the stream is too far behind."""
        with self._changed:
            self._is_over, self._error = True, error
            self._changed.notify_all()

    def take(self, wait_seconds: float) -> list[Release] | None:
        """All that waits, after waiting for the first; [] when nothing comes, None when it is over.

        What was taken before counts as dealt with. Raises the error that ended it, once all is
        taken.
        """
        deadline = time.monotonic() + wait_seconds
        with self._changed:
            self._done, self._in_hand = self._in_hand or self._done, None
            while not (self._releases or self._is_over):
                left = deadline - time.monotonic()
                if left <= 0:
                    return []
                self._changed.wait(left)
            found = list(self._releases)
            if found:
                self._releases.clear()
                self._changes, self._in_hand = 0, found[-1].position
                self._full_since = None
                return found
            if self._error is not None:
                raise self._error
            return None
