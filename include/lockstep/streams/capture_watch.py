"""Asks, while streams run, whether what they belong to is still there.

In a thread of its own: however long a service takes to answer, no heartbeat waits for it. The
thread cannot end or hang unseen: modes for which it has not looked for too long have failed.
"""

import threading
import time
import traceback

from lockstep.capture import connector
from lockstep.capture.connectors import registered_connector
from lockstep.errors import LockstepError, StreamError
from lockstep.settings import Settings
from lockstep.streams.errors import CaptureUnwatchedError, TopicUnknownError
from lockstep.streams.identity import StreamIdentity, compare, read_capture

LOOK_SECONDS = 5.0
"""Between two looks, each of which takes some 30 ms."""
UNWATCHED_SECONDS_MAX = 300.0
"""Without a look that came to its end. One that PostgreSQL, Kafka and Connect all keep waiting for
their deadlines takes some four minutes."""


class CaptureWatch:
    """Of the modes of one driver. What it found stays found until the mode is forgotten."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._identities: dict[str, StreamIdentity] = {}
        self._failures: dict[str, StreamError] = {}
        self._is_mark_cleared = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="capture watch", daemon=True)
        self._looked_at = 0.0
        self._defect: str | None = None

    def start(self) -> None:
        self._looked_at = time.monotonic()
        self._thread.start()

    def end(self) -> None:
        """Look no more; does not wait for a look under way, which does no harm."""
        self._ended.set()

    def follow(self, mode: str, identity: StreamIdentity) -> None:
        with self._lock:
            self._identities[mode] = identity

    def forget(self, mode: str) -> None:
        with self._lock:
            self._identities.pop(mode, None)
            self._failures.pop(mode, None)

    def failure(self, mode: str) -> StreamError | None:
        """Why the mode must not go on, as far as was seen; does not wait.

        CaptureUnwatchedError when nothing was seen for UNWATCHED_SECONDS_MAX, or the thread ended.
        """
        return self._found(mode) or self._unwatched(mode)

    def cause_of(self, mode: str, failure: BaseException) -> BaseException:
        """What is behind a query's failure: what a look finds now, or else the failure itself.

        Does not wait for proof that the topic is gone: then it is TopicUnknownError, and the next
        start finds out.
        """
        if isinstance(failure, LockstepError):
            return failure
        doubt = self.look(may_wait=False)
        return self._found(mode) or doubt or failure

    def look(self, *, may_wait: bool = True) -> TopicUnknownError | None:
        """Compare every mode with what database and Kafka say; no answer says nothing.

        Never raises: a defect is in the log, and counts as no look. may_wait: for proof that the
        topic is gone; returns TopicUnknownError where that is missing.
        """
        doubt = None
        try:
            self._compare_all(may_wait=may_wait)
        except TopicUnknownError as error:
            doubt = error
        except LockstepError:
            pass
        except Exception as error:
            self._note_defect(error)
            return None
        self._looked_at = time.monotonic()
        return doubt

    def _compare_all(self, *, may_wait: bool) -> None:
        self._clear_mark()
        with self._lock:
            identities = dict(self._identities)
        capture = read_capture(self._settings, may_wait=may_wait)
        for mode, identity in identities.items():
            try:
                compare(self._settings, mode, identity, capture)
            except StreamError as error:
                self._note(mode, error)

    def _clear_mark(self) -> None:
        """Until it is done; what Connect answers has no part in the comparison."""
        try:
            self._is_mark_cleared = self._is_mark_cleared or connector.clear_mark(
                self._settings, registered_connector(self._settings)
            )
        except LockstepError:
            return  # Connect is away: the next look tries again
        except Exception as error:
            self._note_defect(error)

    def _note(self, mode: str, error: StreamError) -> None:
        with self._lock:
            if mode in self._identities:
                self._failures[mode] = error

    def _note_defect(self, error: Exception) -> None:
        """Keep what it is; the log gets where it happened, once while it stays the same."""
        defect = f"{type(error).__name__}: {error}"
        if defect != self._defect:
            self._defect = defect
            traceback.print_exception(error)

    def _found(self, mode: str) -> StreamError | None:
        with self._lock:
            return self._failures.get(mode)

    def _unwatched(self, mode: str) -> CaptureUnwatchedError | None:
        if self._thread.ident is None:  # not started
            return None
        seconds = time.monotonic() - self._looked_at
        if not self._thread.is_alive() and not self._ended.is_set():
            return CaptureUnwatchedError(mode, seconds, "the capture watch has ended")
        if seconds < UNWATCHED_SECONDS_MAX:
            return None
        return CaptureUnwatchedError(mode, seconds, self._defect or "a look does not end")

    def _run(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            self.look()
