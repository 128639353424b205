"""What a source's history keeps of each table, as the description of its Delta table says it."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from lockstep.model.log import SNAPSHOT_COMMIT_LSN
from lockstep.pipeline.catalog import TableName
from lockstep.pipeline.plan import PlannedTable
from lockstep.sources.side_snapshots import SideSnapshots


@dataclass(frozen=True)
class KeptTable:
    """since: the commit LSN of the table's snapshot; the connector's own ranks before all."""

    columns: tuple[str, ...]
    since: int = SNAPSHOT_COMMIT_LSN

    def covers(self, other: Self) -> bool:
        """Whether what is kept has all of the other, since the same snapshot."""
        return self.since == other.since and {*self.columns} >= {*other.columns}


def kept_of(
    tables: Iterable[PlannedTable], snapshots: SideSnapshots | None = None
) -> dict[TableName, KeptTable]:
    """What a history over these tables keeps. Raises SideSnapshotMissingError."""
    kept = {}
    for table in tables:
        came = None if snapshots is None else snapshots.of_late(table.name)
        since = SNAPSHOT_COMMIT_LSN if came is None else came.position
        kept[table.name] = KeptTable(table.columns, since)
    return kept


def kept_text(tables: Mapping[TableName, KeptTable]) -> str:
    """The description of a history that keeps these tables."""
    said = {
        str(table): {"columns": one.columns, "since": one.since} for table, one in tables.items()
    }
    return json.dumps(said, sort_keys=True)


def read_kept(description: str | None) -> dict[TableName, KeptTable]:
    """The inverse of kept_text.

    Earlier versions wrote the columns alone; all their tables are of the connector's own snapshot.
    """
    kept = {}
    for table, said in json.loads(description or "{}").items():
        schema, name = table.split(".", 1)
        one = {"columns": said} if isinstance(said, list) else said
        kept[TableName(schema, name)] = KeptTable(tuple(one.pop("columns")), **one)
    return kept
