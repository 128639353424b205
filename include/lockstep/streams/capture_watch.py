"""Asks, while streams run, whether what they belong to is still there.

In a thread of its own: however long a service takes to answer, no heartbeat waits for it.
"""

import threading
from contextlib import suppress

from lockstep.errors import LockstepError, StreamError
from lockstep.settings import Settings
from lockstep.stack import connector
from lockstep.streams.identity import StreamIdentity, compare, read_capture

LOOK_SECONDS = 5.0
"""Between two looks, each of which takes some 30 ms."""


class CaptureWatch:
    """Of the modes of one driver. What it found stays found until the mode is forgotten."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._identities: dict[str, StreamIdentity] = {}
        self._failures: dict[str, StreamError] = {}
        self._is_mark_withheld = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="capture watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Look no more; does not wait for a look under way, which harms nobody."""
        self._ended.set()

    def follow(self, mode: str, identity: StreamIdentity) -> None:
        with self._lock:
            self._identities[mode] = identity

    def forget(self, mode: str) -> None:
        with self._lock:
            self._identities.pop(mode, None)
            self._failures.pop(mode, None)

    def failure(self, mode: str) -> StreamError | None:
        """Why the mode must not go on, as far as was seen; does not wait."""
        with self._lock:
            return self._failures.get(mode)

    def cause_of(self, mode: str, failure: BaseException) -> BaseException:
        """What is behind a query's failure: what a look finds now, or else the failure itself."""
        if isinstance(failure, LockstepError):
            return failure
        self.look()
        return self.failure(mode) or failure

    def look(self) -> None:
        """Compare every mode with what database and Kafka say; no answer says nothing."""
        with suppress(LockstepError):
            self._is_mark_withheld = self._is_mark_withheld or connector.withhold_mark(
                self._settings
            )
        with self._lock:
            identities = dict(self._identities)
        try:
            capture = read_capture(self._settings)
        except LockstepError:
            return
        for mode, identity in identities.items():
            try:
                compare(self._settings, mode, identity, capture)
            except StreamError as error:
                self._note(mode, error)

    def _note(self, mode: str, error: StreamError) -> None:
        with self._lock:
            if mode in self._identities:
                self._failures[mode] = error

    def _run(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            self.look()
