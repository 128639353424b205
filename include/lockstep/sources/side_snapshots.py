"""A source's side snapshots: how tables come that its connector began without. Only the file here.

The connector's first snapshot has the tables that were captured then. One that a later pipeline is
the first to read (a *late* table) comes with a side snapshot: its rows at one position of the
database's log, in a topic of their own; what was committed after that position is in the change
topic, as of every table. A pipeline that reads a late table begins with a side snapshot of all its
tables, for the rows of one position belong together.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from lockstep.errors import StreamError
from lockstep.pipeline.catalog import TableName
from lockstep.pipeline.errors import PipelineError
from lockstep.pipeline.names import side_topic
from lockstep.settings import Settings

FILE = "snapshots.json"


class SideSnapshot(Struct, frozen=True):
    """tables: those with rows in it. late: those of them that come with it.

    position: the commit LSN up to which, inclusive, its rows have all transactions, and after which
    every change is in the change topic; None until the snapshot is complete. first_offset: of the
    change topic; all of these changes lie behind it. taken_at: by the database's clock.
    """

    number: int
    late: tuple[str, ...]
    tables: tuple[str, ...]
    position: int | None = None
    first_offset: int = 0
    taken_at: datetime | None = None

    @property
    def is_complete(self) -> bool:
        return self.position is not None


class SideSnapshotMissingError(PipelineError):
    """A pipeline reads a table that the connector began without, and its rows are not there."""

    def __init__(self, source: str, tables: Collection[str]) -> None:
        super().__init__(
            f"the connector of source {source} began without {', '.join(sorted(tables))}: "
            f"`lockstep source capture {source}` brings the rows, while the other pipelines run on"
        )


class _File(Struct, frozen=True):
    first: tuple[str, ...]
    side: tuple[SideSnapshot, ...] = ()
    members: dict[str, int] = {}


@dataclass(frozen=True)
class SideSnapshots:
    """All of a source, the oldest first.

    first: the tables of the connector's own snapshot; None before that is known. members: of each
    captured table the number of its membership in the publication, as it was when it was captured.
    """

    source: str
    taken: Sequence[SideSnapshot] = ()
    first: tuple[str, ...] | None = None
    members: Mapping[str, int] = field(default_factory=dict)

    def topic(self, snapshot: SideSnapshot) -> str:
        """Where the snapshot's rows are."""
        return side_topic(self.source, snapshot.number)

    @property
    def incomplete(self) -> list[SideSnapshot]:
        """Those that were broken off, or are being taken."""
        return [one for one in self.taken if not one.is_complete]

    def of_late(self, table: TableName) -> SideSnapshot | None:
        """The one with which the table came; None of a table that the connector began with.

        Raises SideSnapshotMissingError when its rows are nowhere.
        """
        found = [one for one in self.taken if str(table) in one.late and one.is_complete]
        if not found and self.first is not None and str(table) not in self.first:
            raise SideSnapshotMissingError(self.source, [str(table)])
        return found[-1] if found else None

    def without(self, tables: Collection[str]) -> "SideSnapshots":
        """The same where the rows of these tables are in none: their changes have a gap."""
        return replace(
            self,
            first=None
            if self.first is None
            else tuple(name for name in self.first if name not in tables),
            taken=[
                structs.replace(one, late=tuple(name for name in one.late if name not in tables))
                for one in self.taken
            ],
        )

    def has(self, table: TableName) -> bool:
        """Whether the table's rows are in one of the snapshots."""
        try:
            self.of_late(table)
        except SideSnapshotMissingError:
            return False
        return True

    def has_all(self, tables: Collection[TableName]) -> bool:
        """Whether streams over these tables have rows to begin with."""
        try:
            self.first_of(tables)
        except SideSnapshotMissingError:
            return False
        return True

    def first_of(self, tables: Collection[TableName]) -> SideSnapshot | None:
        """The one that streams over these tables begin with; None where it is the connector's own.

        It is the oldest with all of them. Raises SideSnapshotMissingError when there is none.
        """
        late = [one for table in tables if (one := self.of_late(table)) is not None]
        if not late:
            return None
        names, since = set(map(str, tables)), max(one.position for one in late)
        for one in self.taken:
            if one.is_complete and one.position >= since and names <= set(one.tables):
                return one
        raise SideSnapshotMissingError(self.source, {name for one in late for name in one.late})


def read_side_snapshots(settings: Settings, source: str) -> SideSnapshots:
    """Those of a source. Raises StreamError for a damaged file."""
    path = side_snapshots_path(settings, source)
    try:
        found = msgspec.json.decode(path.read_bytes(), type=_File)
    except FileNotFoundError:
        return SideSnapshots(source)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StreamError(
            f"{path} is damaged ({error}): `lockstep source capture {source} --new-snapshot` "
            "begins again"
        ) from error
    return SideSnapshots(source, found.side, found.first, found.members)


def side_snapshots_text(snapshots: SideSnapshots) -> str:
    """What the file says of them, as JSON."""
    first, side = tuple(snapshots.first or ()), tuple(snapshots.taken)
    return msgspec.json.encode(_File(first, side, dict(snapshots.members))).decode()


def side_snapshots_path(settings: Settings, source: str) -> Path:
    """The file that says which side snapshots a source has."""
    return settings.home / "sources" / source / FILE
