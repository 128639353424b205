"""What a stream belongs to, and whether that is still there: it never goes on silently.

A stream's table is an answer over the changes of one database, decoded by one replication slot, in
one change topic. HOME/streams/<mode>/identity.json remembers which, from before the table's first
row on. A start compares, and the driver asks again every few seconds while it runs. A service that
does not answer is no evidence: only what the database or Kafka says counts.
"""

import time
from dataclasses import dataclass
from pathlib import Path

import msgspec

from lockstep.contracts import (
    CHANGE_TOPIC,
    DIMENSION_CHANGES,
    HISTORY,
    REPLICATION_SLOT,
    StreamMode,
    change_log_table,
)
from lockstep.errors import (
    OtherDatabaseError,
    PostgresUnavailableError,
    SlotLostError,
    SlotRecreatedError,
    StreamCheckpointMissingError,
    StreamError,
    TopicRecreatedError,
)
from lockstep.settings import Settings
from lockstep.sinks.append_log import reached_of
from lockstep.sources import change_topic
from lockstep.sources.capture import CaptureFacts, read_capture_facts
from lockstep.sources.delta import open_table
from lockstep.stack.files import make_private_folder, write_private
from lockstep.supervise.folder import mode_folder

TOPIC_LOOKS = 3
"""A broker that has just started may not know its topics for a moment."""
TOPIC_PAUSE_SECONDS = 1.0


@dataclass(frozen=True)
class StreamIdentity:
    """database_system: PostgreSQL's, made by initdb. topic_id: Kafka's, made with the topic.
    generation: the Delta table's own id, another one after every rebuild."""

    database_system: int
    database: str
    slot: str
    topic_id: str | None
    generation: str


def table_of(mode: str) -> str:
    """The table of contracts.py that a mode, or the history query, writes."""
    return DIMENSION_CHANGES if mode == HISTORY else change_log_table(StreamMode(mode))


def identity_path(settings: Settings, mode: str) -> Path:
    return mode_folder(settings, mode) / "identity.json"


def checkpoint_location(settings: Settings, mode: str) -> Path:
    """The folder of Spark's own bookkeeping of the mode's query."""
    return mode_folder(settings, mode) / "checkpoint"


def claim(settings: Settings, mode: str) -> StreamIdentity:
    """Called at a start, with the mode's lease held and its table opened, before anything is read.

    The first start remembers what the stream belongs to; later ones compare. Raises a StreamError
    that names what is gone or is another one, and PostgresUnavailableError or StreamError when a
    service does not answer.
    """
    remembered = read_remembered(settings, mode)
    _require_whole(settings, mode, remembered)
    facts = read_capture_facts(settings)
    if remembered is None:
        _check_slot(facts)
        remembered = read_identity(settings, mode, facts)
        remember(settings, mode, remembered)
    _check_database(settings, mode, remembered, facts)
    _check_slot(facts)
    _check_topic(settings, mode, remembered)
    return remembered


def check_capture(settings: Settings, mode: str, identity: StreamIdentity) -> None:
    """Called every few seconds while a stream runs; costs some 30 ms.

    Raises SlotLostError, SlotRecreatedError, TopicRecreatedError or OtherDatabaseError. A service
    that does not answer is passed over: it will be asked again.
    """
    try:
        facts = read_capture_facts(settings)
    except PostgresUnavailableError:
        return
    _check_database(settings, mode, identity, facts)
    _check_slot(facts)
    _check_topic(settings, mode, identity, must_answer=False)


def check_whole(settings: Settings) -> None:
    """Raise SlotLostError or SlotRecreatedError when change capture itself has a gap."""
    _check_slot(read_capture_facts(settings))


def read_identity(
    settings: Settings, mode: str, facts: CaptureFacts | None = None
) -> StreamIdentity:
    """What a stream that starts now with the table as it is would belong to."""
    facts = facts or read_capture_facts(settings)
    return StreamIdentity(
        database_system=facts.database_system,
        database=facts.database_name,
        slot=REPLICATION_SLOT,
        topic_id=_topic_id(settings),
        generation=_generation(settings, mode),
    )


def remember(settings: Settings, mode: str, identity: StreamIdentity) -> None:
    """Write identity.json, whole or not at all, forced to the disk."""
    path = identity_path(settings, mode)
    make_private_folder(path.parent)
    write_private(path, msgspec.json.encode(identity).decode())


def read_remembered(settings: Settings, mode: str) -> StreamIdentity | None:
    """What identity.json says; None when there is none. Raises StreamError for a damaged one."""
    path = identity_path(settings, mode)
    try:
        return msgspec.json.decode(path.read_bytes(), type=StreamIdentity)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as error:
        raise StreamCheckpointMissingError(mode, f"{path} is damaged ({error})") from error


def _require_whole(settings: Settings, mode: str, remembered: StreamIdentity | None) -> None:
    """Raise StreamCheckpointMissingError unless table, identity and checkpoint_location are there.

    A table without a frontier has nothing yet, so that nothing can be missing.
    """
    generation = _generation(settings, mode)
    uri, path = settings.table_uri(table_of(mode)), identity_path(settings, mode)
    if remembered is not None and remembered.generation != generation:
        raise StreamCheckpointMissingError(
            mode, f"{path} is of the table {remembered.generation}, and {uri} is {generation}"
        )
    frontier = reached_of(open_table(uri)).frontier
    if frontier is None:
        return
    if remembered is None:
        raise StreamCheckpointMissingError(
            mode, f"{uri} has reached LSN {frontier}, but {path} is gone"
        )
    folder = checkpoint_location(settings, mode)
    if mode != HISTORY and not folder.exists():  # the history is also written by another query
        raise StreamCheckpointMissingError(
            mode, f"{uri} has reached LSN {frontier}, but its checkpoint_location {folder} is gone"
        )


def _generation(settings: Settings, mode: str) -> str:
    return str(open_table(settings.table_uri(table_of(mode))).metadata().id)


def _check_database(
    settings: Settings, mode: str, identity: StreamIdentity, facts: CaptureFacts
) -> None:
    expected = (identity.database, identity.database_system)
    found = (facts.database_name, facts.database_system)
    if expected != found:
        address = f"{settings.postgres_host}:{settings.postgres_port}"
        raise OtherDatabaseError(mode, expected, found, address)


def _check_slot(facts: CaptureFacts) -> None:
    if not facts.has_slot:
        raise SlotLostError(REPLICATION_SLOT, "is gone")
    if facts.wal_status == "lost" or facts.invalidation_reason:
        why = facts.invalidation_reason or "the log it needs was removed"
        behind = facts.current_lsn - (facts.confirmed_lsn or 0)
        raise SlotLostError(
            REPLICATION_SLOT, f"has lost log that was not read yet ({why}; {behind:,} bytes behind)"
        )
    if facts.has_mark is False:
        raise SlotRecreatedError(REPLICATION_SLOT, facts.confirmed_lsn)


def _check_topic(
    settings: Settings, mode: str, identity: StreamIdentity, *, must_answer: bool = True
) -> None:
    try:
        found = _topic_id(settings)
    except StreamError:
        if must_answer:
            raise
        return
    if found != identity.topic_id:
        raise TopicRecreatedError(mode, CHANGE_TOPIC, str(identity.topic_id), found)


def _topic_id(settings: Settings) -> str | None:
    for _ in range(TOPIC_LOOKS - 1):
        if (found := change_topic.topic_id(settings)) is not None:
            return found
        time.sleep(TOPIC_PAUSE_SECONDS)
    return change_topic.topic_id(settings)
