"""What a stream belongs to, and whether that is still there: it never goes on silently.

A stream's table is an answer over the changes of one database, decoded by one replication slot, in
one change topic. HOME/streams/<address>/identity.json remembers which, from before the table's
first row on. A start compares, and the driver asks again every few seconds while it runs. A service
that does not answer is no evidence: only what the database or Kafka says counts. That the topic is
gone Kafka must say for a while, for a broker that has just started may not know its topics.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path

import msgspec
from deltalake import DeltaTable

from lockstep.cdc.errors import BEGIN_AGAIN
from lockstep.cdc.records import RecordDecoder, SnapshotNotice
from lockstep.errors import StreamError
from lockstep.host.files import make_private_folder, write_private
from lockstep.model.modes import HISTORY, StreamMode
from lockstep.pipeline.pipeline_names import PipelineNames
from lockstep.pipeline.plan import plan_named
from lockstep.settings import Settings
from lockstep.sinks.append_log import reached_of
from lockstep.sources import change_topic
from lockstep.sources.capture import CaptureFacts, read_capture_state
from lockstep.sources.delta import open_table
from lockstep.sources.side_snapshots import read_side_snapshots
from lockstep.sources.source_database import address
from lockstep.streams.errors import (
    OtherDatabaseError,
    PublicationChangedError,
    SlotLostError,
    SlotRecreatedError,
    StreamIdentityMissingError,
    TopicIncompleteError,
    TopicRecreatedError,
    TopicUnknownError,
)
from lockstep.supervise.folder import mode_folder

JOINED_WITH_HISTORY = (StreamMode.TEMPORAL, StreamMode.TRANSACTION)
FIRST_RECORDS = 1000
"""Offsets among which the topic's first record is: where the connector writes in transactions of
Kafka's, those of aborted ones hold none."""
TOPIC_GONE_SECONDS = 30.0
"""So long Kafka must say, without a break, that there is no such topic. A broker knows its topics
seconds after its start; one that lags behind its cluster is put out of it after 9 s."""
TOPIC_PAUSE_SECONDS = 1.0


@dataclass(frozen=True)
class StreamIdentity:
    """database_system: PostgreSQL's, made by initdb. topic_id: Kafka's, made with the topic.
    generation: the Delta table's own id, made with the table. members: of each table that the mode
    reads the number of its membership in the publication."""

    database_system: int
    database: str
    slot: str
    topic_id: str
    generation: str
    members: Mapping[str, int] = field(default_factory=dict)

    @property
    def capture_id(self) -> int:
        """The number of the capture, as its change logs carry it."""
        return capture_id(self.database_system, self.database, self.topic_id)


def capture_id(database_system: int, database: str, topic_id: str | None) -> int:
    """A number of 63 bits that identifies one database and one change topic of it.

    `lockstep capture reset` makes a new topic for each snapshot, so that it identifies that, too.
    Delta keeps it as an application transaction, which is why it is a number.
    """
    digest = sha256(f"{database_system}/{database}/{topic_id}".encode()).digest()
    return int.from_bytes(digest[:8]) >> 1


def table_of(names: PipelineNames, mode: str) -> str:
    """The table that a mode, or the history query, writes."""
    return names.history if mode == HISTORY else names.change_log(mode)


def identity_path(settings: Settings, mode: str) -> Path:
    return mode_folder(settings, mode) / "identity.json"


@dataclass(frozen=True)
class Capture:
    """What database and Kafka say at one moment; topic_id None when the topic is gone for sure.

    members: the publication's tables, each with the number of its membership; None: not asked for.
    """

    facts: CaptureFacts
    topic_id: str | None
    members: Mapping[str, int] | None = None

    @property
    def capture_id(self) -> int:
        """The number of the capture, as its change logs carry it."""
        return capture_id(self.facts.database_system, self.facts.database_name, self.topic_id)


def read_capture(settings: Settings, *, may_wait: bool = True) -> Capture:
    """Ask both, some 30 ms; while Kafka does not know the topic, TOPIC_GONE_SECONDS.

    Raises PostgresUnavailableError or StreamError without an answer, and TopicUnknownError where
    it may not wait.
    """
    facts, members = read_capture_state(settings)
    return Capture(facts, _topic_id(settings, may_wait=may_wait), members)


def claim(settings: Settings, mode: str) -> StreamIdentity:
    """Called at a start, with the mode's lease held and its tables made, before anything is read.

    The first start remembers what the stream belongs to; later ones compare. A mode that joins with
    the source's history vouches for that, too. Raises a StreamError that names what is gone or
    is another one, and PostgresUnavailableError or StreamError when a service does not answer.
    """
    if mode in JOINED_WITH_HISTORY and DeltaTable.is_deltatable(
        settings.table_uri(settings.names.history)
    ):
        claim(settings, HISTORY)
    remembered = read_remembered(settings, mode)
    require_whole(settings, mode, remembered)
    capture = read_capture(settings)
    if remembered is None:
        remembered = begin(settings, mode, capture)
    elif not remembered.members and (members := require_members(settings, mode, capture)):
        remembered = replace(remembered, members=members)  # an earlier version's has none
        remember(settings, mode, remembered)
    compare(settings, mode, remembered, capture)
    return remembered


def begin(settings: Settings, mode: str, capture: Capture) -> StreamIdentity:
    """Remember what a stream that starts now, with the table as it is, belongs to.

    Raises CaptureLostError when no complete table can come of it, StreamError without a topic.
    """
    require_capture(settings, capture)
    identity = StreamIdentity(
        database_system=capture.facts.database_system,
        database=capture.facts.database_name,
        slot=settings.names.slot,
        topic_id=capture.topic_id,
        generation=_generation(settings, mode),
        members=require_members(settings, mode, capture),
    )
    remember(settings, mode, identity)
    return identity


def require_members(settings: Settings, mode: str, capture: Capture) -> dict[str, int]:
    """The memberships of the tables that a mode reads; a source's history goes on without one.

    Raises PublicationChangedError when one is not published, or not as it was captured.
    """
    if mode == HISTORY or capture.members is None:
        return {}
    captured = read_side_snapshots(settings, settings.names.source).members
    read = map(str, plan_named(settings.project, settings.names.pipeline).captured)
    found = {table: captured.get(table, capture.members.get(table)) for table in read}
    _check_members(settings, found, capture)
    return found


def _check_members(
    settings: Settings, expected: Mapping[str, int | None], capture: Capture
) -> None:
    for table, number in expected.items():
        now = number if capture.members is None else capture.members.get(table)
        if now != number or now is None:
            source, publication = settings.names.source, settings.names.publication
            raise PublicationChangedError(
                publication,
                table,
                is_gone=now is None,
                remedy=f"`lockstep source check {source}` says what to run in the database, "
                f"`lockstep source capture {source}` reads its rows again, and "
                f"{settings.command('stream rebuild MODE')} makes the stream's table again",
            )


def require_capture(settings: Settings, capture: Capture) -> None:
    """Raise CaptureLostError unless a complete table can come of it; StreamError with no topic."""
    check_slot(capture.facts, settings.names.slot, begin_again(settings))
    if capture.topic_id is None:
        raise StreamError(
            f"there is no topic {settings.names.change_topic} yet: `lockstep up` or `lockstep "
            f"source capture {settings.names.source}` starts capture"
        )
    require_complete_topic(settings)


def compare(settings: Settings, mode: str, identity: StreamIdentity, capture: Capture) -> None:
    """Raises OtherDatabaseError, SlotLostError, SlotRecreatedError, PublicationChangedError or
    TopicRecreatedError."""
    _check_database(settings, mode, identity, capture.facts)
    check_slot(capture.facts, settings.names.slot, begin_again(settings))
    _check_members(settings, identity.members, capture)
    if capture.topic_id != identity.topic_id:
        raise TopicRecreatedError(
            mode, settings.names.change_topic, identity.topic_id, capture.topic_id
        )


def begin_again(settings: Settings) -> str:
    """What to do about a gap that nothing fills."""
    text = BEGIN_AGAIN
    for words in ("capture reset", "stream rebuild MODE"):
        text = text.replace(f"`lockstep {words}`", settings.command(words))
    return text


def require_complete_topic(settings: Settings) -> None:
    """Raise TopicIncompleteError unless the topic has all from the connector's snapshot on.

    An empty one is complete so far.
    """
    topic, remedy = settings.names.change_topic, begin_again(settings)
    if (first := change_topic.first_offset(settings)) > 0:
        raise TopicIncompleteError(topic, f"begins at offset {first:,} only", remedy)
    end = min(change_topic.end_offset(settings), FIRST_RECORDS)
    stretches = change_topic.read_again(settings, 0, end)
    found = next((record for stretch in stretches for record in stretch), None)
    if found is None:
        return
    offset, value = found
    if not isinstance(RecordDecoder(topic, {}).decode(value, offset, ()), SnapshotNotice):
        raise TopicIncompleteError(topic, "does not begin with the connector's snapshot", remedy)


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
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StreamIdentityMissingError(mode, f"{path} is damaged ({error})") from error


def require_whole(settings: Settings, mode: str, remembered: StreamIdentity | None) -> None:
    """Raise StreamIdentityMissingError unless the table and its identity are there.

    A table without a frontier has nothing yet, so that nothing can be missing.
    """
    generation = _generation(settings, mode)
    uri, path = settings.table_uri(table_of(settings.names, mode)), identity_path(settings, mode)
    if remembered is not None and remembered.generation != generation:
        raise StreamIdentityMissingError(
            mode, f"{path} is of the table {remembered.generation}, and {uri} is {generation}"
        )
    frontier = reached_of(open_table(uri)).frontier
    if frontier is None:
        return
    if remembered is None:
        raise StreamIdentityMissingError(
            mode, f"{uri} has reached LSN {frontier}, but {path} is gone"
        )


def _generation(settings: Settings, mode: str) -> str:
    return str(open_table(settings.table_uri(table_of(settings.names, mode))).metadata().id)


def _check_database(
    settings: Settings, mode: str, identity: StreamIdentity, facts: CaptureFacts
) -> None:
    expected = (identity.database, identity.database_system)
    found = (facts.database_name, facts.database_system)
    if expected != found:
        host, port = address(settings)
        raise OtherDatabaseError(mode, expected, found, f"{host}:{port}")


def check_slot(facts: CaptureFacts, slot: str, remedy: str = BEGIN_AGAIN) -> None:
    """Raise SlotLostError or SlotRecreatedError unless it is the slot of the first snapshot."""
    if not facts.has_slot:
        raise SlotLostError(slot, "is gone", remedy)
    if facts.wal_status == "lost" or facts.invalidation_reason:
        why = facts.invalidation_reason or "the log it needs was removed"
        behind = facts.current_lsn - (facts.confirmed_lsn or 0)
        lost = f"has lost log that was not read yet ({why}; {behind:,} bytes behind)"
        raise SlotLostError(slot, lost, remedy)
    if facts.has_mark is False:
        raise SlotRecreatedError(slot, facts.confirmed_lsn, remedy)


def _topic_id(settings: Settings, *, may_wait: bool) -> str | None:
    """The topic's id; None once Kafka has said for TOPIC_GONE_SECONDS that there is no topic."""
    began = time.monotonic()
    while (found := change_topic.topic_id(settings)) is None:
        if not may_wait:
            raise TopicUnknownError(
                settings.names.change_topic, settings.kafka_bootstrap, TOPIC_GONE_SECONDS
            )
        if time.monotonic() - began >= TOPIC_GONE_SECONDS:
            return None
        time.sleep(TOPIC_PAUSE_SECONDS)
    return found
