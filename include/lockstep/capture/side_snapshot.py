"""Brings tables that a source's connector began without, while its streams run on.

1. Remember that they come, so that a snapshot that is broken off is taken again.
2. An administrator has added them to the publication, so that the connector captures them already:
   which changes come is the publication's to say. All that commits from now on lies behind the
   change topic's present end.
3. A connector of the snapshot's own makes a slot. PostgreSQL waits for the transactions that were
   running, some of which may be older than the publication's change, and exports what the slot's
   position sees; that the connector reads into a topic of its own, in the form that every reader of
   the change topic knows. The source's connector and its streams go on meanwhile.
4. Remove connector and slot; remember the position. Streams begin with these rows
   (streams/beginning.py).

A crash leaves the tables incomplete: pipelines that read them do not start, and the next
`lockstep source capture` removes what is left and begins again. Until then the slot keeps the
database's log.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import msgspec
from msgspec import Struct

from lockstep.capture import connector, preflight
from lockstep.capture.connectors import Connector, tables_pattern
from lockstep.capture.topic_removal import delete_topic
from lockstep.capture.topic_rights import grant_reading
from lockstep.errors import ServiceError, StreamError
from lockstep.faults import Point, reach
from lockstep.host.files import make_private_folder, write_private
from lockstep.pipeline import names
from lockstep.pipeline.catalog import TableName
from lockstep.settings import Settings
from lockstep.sources import change_topic
from lockstep.sources.capture import slot_position
from lockstep.sources.side_snapshots import (
    SideSnapshot,
    SideSnapshots,
    read_side_snapshots,
    side_snapshots_path,
    side_snapshots_text,
)

STILL_SECONDS_MAX = 300.0
"""For the slot, which waits for the transactions that ran when it began; and without a record of
the snapshot."""
POLL_SECONDS = 0.1
WORKER = "capture"
"""In the name of a point at which tests end this."""
Progress = Callable[[str], None]


@dataclass(frozen=True)
class LateTables:
    """tables: all of the pipelines that read one that is late. late: those of them."""

    tables: tuple[TableName, ...]
    late: tuple[TableName, ...]


def take_side_snapshot(
    settings: Settings, capture: Connector, coming: LateTables, progress: Progress
) -> SideSnapshot:
    """Read the rows of all of the tables at one position.

    capture: the source's connector, which runs; the publication has the tables. progress: called
    with what is done next. Raises ServiceError when a service refuses, or nothing comes for too
    long: take it again.
    """
    taken = read_side_snapshots(settings, capture.source)
    for broken_off in taken.incomplete:
        _remove(settings, capture, broken_off)
    # Step 1
    complete = [one for one in taken.taken if one.is_complete]
    snapshot = SideSnapshot(
        number=max((one.number for one in taken.taken), default=0) + 1,
        late=tuple(map(str, coming.late)),
        tables=tuple(map(str, coming.tables)),
    )
    _keep(settings, replace(taken, taken=[*complete, snapshot]))
    reach(Point.SIDE_REMEMBERED, WORKER)
    # Step 2
    first_offset = change_topic.end_offset(settings, capture.change_topic)
    # Step 3
    progress(f"a side snapshot reads {', '.join(snapshot.tables)} at one position")
    side = _side_connector(capture, snapshot, coming.tables)
    grant_reading(settings, side.change_topic)
    connector.register(settings, side, STILL_SECONDS_MAX)
    found = _read_to_its_end(settings, side, progress)
    reach(Point.SIDE_READ, WORKER)
    # Step 4
    _remove(settings, capture, snapshot, keeps_topic=True)
    reach(Point.SIDE_REMOVED, WORKER)
    finished = msgspec.structs.replace(
        snapshot, position=found.position, first_offset=first_offset, taken_at=found.taken_at
    )
    _keep(settings, replace(taken, taken=[*complete, finished]))
    return finished


def remove_side_snapshots(settings: Settings, capture: Connector) -> None:
    """Delete all of a source, with their topics; for a capture that begins again.

    What a damaged file does not say stays in Kafka.
    """
    with suppress(StreamError):
        for one in read_side_snapshots(settings, capture.source).taken:
            _remove(settings, capture, one)
    side_snapshots_path(settings, capture.source).unlink(missing_ok=True)


def keep_captured_tables(
    settings: Settings,
    capture: Connector,
    first: Sequence[TableName],
    members: Mapping[TableName, int],
) -> list[str]:
    """Remember the tables of the connector's own snapshot, unless that is done, and the members of
    the publication. Returns the tables that left it, or left it and came again, since they were
    captured: their changes have a gap, so that their rows are in no snapshot any more.
    """
    known = read_side_snapshots(settings, capture.source)
    found = {str(table): number for table, number in members.items()}
    changed = [name for name, number in known.members.items() if found.get(name) != number]
    if known.first is None:
        known = replace(known, first=tuple(map(str, first)))
    _keep(settings, replace(known.without(changed), members=found))
    return changed


def _keep(settings: Settings, known: SideSnapshots) -> None:
    """Remember these of a source, whole or not at all, forced to the disk."""
    path = side_snapshots_path(settings, known.source)
    make_private_folder(path.parent)
    write_private(path, side_snapshots_text(known))


def _side_connector(
    capture: Connector, snapshot: SideSnapshot, tables: Sequence[TableName]
) -> Connector:
    """The source's connector again, but for its tables, its slot and its topic."""
    name, slot = names.side_topic(capture.source, snapshot.number), names.side_slot(capture.slot)

    def configuration() -> dict[str, str]:
        own = {
            "slot.name": slot,
            connector.MARK: "false",
            "table.include.list": tables_pattern(tables),
            connector.FIRST_TABLES: tables_pattern(tables),
            "topic.prefix": name,
            "notification.sink.topic.name": f"{name}.notification",
            "transforms.route.regex": rf"{name}\..*",
            "transforms.route.replacement": name,
            "heartbeat.interval.ms": "0",
            "lsn.flush.mode": "manual",  # so that the slot stays where it was made
            "internal.create.slot.command.timeout": f"{STILL_SECONDS_MAX:.0f}",
        }
        of_source = capture.configuration()
        of_source.pop("heartbeat.action.query", None)
        return {**of_source, **own}

    return replace(
        capture,
        name=name,
        change_topic=name,
        slot=slot,
        tables=tuple(tables),
        configuration=configuration,
    )


def _remove(
    settings: Settings, capture: Connector, snapshot: SideSnapshot, *, keeps_topic: bool = False
) -> None:
    """What a snapshot has in Connect, in the database and in Kafka."""
    side = _side_connector(capture, snapshot, ())
    if connector.first_tables(settings, side) is not None:
        connector.stop(settings, side)
        connector.remove(settings, side)
    preflight.drop_slot(side)
    if not keeps_topic:
        delete_topic(settings, side.change_topic)


class _Place(Struct):
    lsn: int | None = None
    ts_us: int | None = None


class _Record(Struct):
    """What is read of a record of the snapshot; ts_us: of a row, when it was read."""

    op: str | None = None
    type: str | None = None
    source: _Place | None = None


@dataclass(frozen=True)
class _Found:
    position: int
    taken_at: datetime


def _read_to_its_end(settings: Settings, side: Connector, progress: Progress) -> _Found:
    """Wait until the snapshot is in its topic. Raises ServiceError unless it is all of one."""
    seen = _Seen()
    heard = time.monotonic()
    for record in _following(settings, side.change_topic):
        if record is not None:
            heard = time.monotonic()
            seen.take(record)
            if seen.rows and seen.rows % 100_000 == 0:
                progress(f"{seen.rows:,} rows are read")
            if seen.is_at_its_end:
                return seen.found(side, slot_position(side.database(), side.slot))
            continue
        if (why := connector.failure(settings, side)) is not None:
            raise ServiceError(f"{why}; then: {side.remedies.register}")
        if time.monotonic() - heard > STILL_SECONDS_MAX:
            raise ServiceError(
                f"the snapshot of {side.name} does not get on for {STILL_SECONDS_MAX:.0f} s: does "
                "a transaction of before it still run (view pg_stat_activity)? Then: "
                f"{side.remedies.register}"
            )
    raise AssertionError("a topic that is followed has no end")


@dataclass
class _Seen:
    """What the records say so far. positions: those that the rows name."""

    rows: int = 0
    positions: set[int | None] = field(default_factory=set)
    starts: int = 0
    is_at_its_end: bool = False
    taken_us: int = 0

    def take(self, record: _Record) -> None:
        if record.type == "STARTED":
            self.starts += 1
        elif record.type == "COMPLETED":
            self.is_at_its_end = True
        elif record.op == "r" and record.source is not None:
            self.rows += 1
            self.positions.add(record.source.lsn)
            self.taken_us = self.taken_us or record.source.ts_us or 0

    def found(self, side: Connector, slot_at: int | None) -> _Found:
        """Raises ServiceError unless the rows are those of the slot's own snapshot.

        A task that failed and began again finds the slot there, and reads at another position; what
        the first one wrote may be lost with the broker.
        """
        if slot_at is None or self.starts != 1 or not self.positions <= {slot_at}:
            raise ServiceError(
                f"the snapshot of {side.name} was begun {self.starts} times, at the positions "
                f"{sorted(map(str, self.positions))}, and its slot is at {slot_at}: its rows are "
                f"not those of its slot; take it again: {side.remedies.register}"
            )
        at = datetime.fromtimestamp(self.taken_us / 1e6, UTC) if self.taken_us else None
        return _Found(slot_at, at or datetime.now(UTC))


def _following(settings: Settings, topic: str) -> Iterator[_Record | None]:
    """The records of a topic, as they come; None whenever none does for a moment."""
    decode, first = msgspec.json.Decoder(_Record).decode, 0
    while True:
        end = change_topic.end_offset(settings, topic)
        for records in change_topic.read_again(settings, first, end, topic):
            yield from (decode(value) for _, value in records if value is not None)
        first = max(first, end)
        yield None
        time.sleep(POLL_SECONDS)
