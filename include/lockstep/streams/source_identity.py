"""What a source's streams belong to: its database, slot and change topic, at a start and later.

Two captures of one source have different numbers (identity.capture_id), which each commit of a
table carries; a table with rows of another capture is refused.
"""

import time
from collections.abc import Iterable
from contextlib import suppress

from deltalake import DeltaTable

from lockstep.capture import connector
from lockstep.capture.connectors import of_source
from lockstep.errors import LockstepError, StreamError
from lockstep.pipeline import names
from lockstep.pipeline.project import Source
from lockstep.settings import Settings
from lockstep.sinks.append_log import capture_id_of
from lockstep.sources.capture import capture_facts_at, xid_at
from lockstep.sources.change_topic import topic_id
from lockstep.sources.delta import open_table
from lockstep.sources.errors import PostgresUnavailableError
from lockstep.sources.source_database import capturer_of
from lockstep.streams.errors import OtherCaptureError, TopicIncompleteError
from lockstep.streams.identity import (
    TOPIC_GONE_SECONDS,
    TOPIC_PAUSE_SECONDS,
    capture_id,
    check_slot,
    require_complete_topic,
)


class SourceIdentity:
    """One source's capture, as a driver finds it. capture_id: its number, after `require`."""

    capture_id: int

    def __init__(self, settings: Settings, source: Source) -> None:
        self._settings, self._source = settings, source.name
        self._target = capturer_of(settings, source)
        self._topic = names.change_topic(source.name)
        self._slot = source.slot
        self._begin_again = (
            f"begin again with a new snapshot: `lockstep source capture {source.name} "
            "--new-snapshot`, then delete the folders of the source's history and of its "
            "pipelines' change logs, and start the streams"
        )
        self._connector = of_source(settings, source, ())
        self._is_mark_cleared = False
        self._topic_id: str | None = None
        self._topic_seen_at = time.monotonic()

    def require(self, tables: Iterable[str]) -> None:
        """Called at a start, before anything is read. tables: URIs of what the driver writes.

        Waits TOPIC_GONE_SECONDS for a topic. Raises CaptureLostError unless complete tables can
        come of it, OtherCaptureError for a table with rows of another capture, and
        PostgresUnavailableError or StreamError when a service does not answer.
        """
        facts = capture_facts_at(self._target, self._slot)
        check_slot(facts, self._slot, self._begin_again)
        self._topic_id = self._wait_for_topic()
        require_complete_topic(self._settings, self._topic, self._begin_again)
        self.capture_id = capture_id(facts.database_system, facts.database_name, self._topic_id)
        for uri in tables:
            found = capture_id_of(open_table(uri)) if DeltaTable.is_deltatable(uri) else None
            if found not in (None, self.capture_id):
                raise OtherCaptureError(uri, self._source)

    def look(self) -> None:
        """Called while the stream runs. A service that does not answer is no evidence.

        Also has the connector mark no other slot, once its snapshot is in the topic. Raises
        CaptureLostError when slot or topic is gone or another one.
        """
        self._clear_mark()
        try:
            facts, found = capture_facts_at(self._target, self._slot), self._topic_now()
        except (PostgresUnavailableError, StreamError):
            return
        check_slot(facts, self._slot, self._begin_again)
        if found is not None:
            self._topic_seen_at = time.monotonic()
        elif time.monotonic() - self._topic_seen_at >= TOPIC_GONE_SECONDS:
            raise TopicIncompleteError(self._topic, "is gone", self._begin_again)
        if found not in (None, self._topic_id):
            raise OtherCaptureError(f"the topic {self._topic}", self._source)

    def current_xid(self) -> int:
        """A 64-bit transaction id of about now. Raises PostgresUnavailableError."""
        return xid_at(self._target)

    def _clear_mark(self) -> None:
        """Until it is done; while Connect is away the next look tries again."""
        if not self._is_mark_cleared:
            with suppress(LockstepError):
                cleared = connector.clear_mark(self._settings, self._connector)
                self._is_mark_cleared = cleared

    def _topic_now(self) -> str | None:
        return topic_id(self._settings, self._topic)

    def _wait_for_topic(self) -> str:
        deadline = time.monotonic() + TOPIC_GONE_SECONDS
        while (found := self._topic_now()) is None:
            if time.monotonic() >= deadline:
                raise StreamError(
                    f"there is no topic {self._topic}: `lockstep source capture {self._source}` "
                    "starts capture"
                )
            time.sleep(TOPIC_PAUSE_SECONDS)
        return found
