"""What a source's history keeps of each table, as a property of its Delta table says it."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from lockstep.model.log import SNAPSHOT_COMMIT_LSN
from lockstep.pipeline.catalog import TableName
from lockstep.pipeline.plan import PlannedTable
from lockstep.sources.side_snapshots import SideSnapshots

KEPT_TABLES = "lockstep.keptTables"
"""The property."""


@dataclass(frozen=True)
class KeptTable:
    """since: the commit LSN of the table's snapshot; the connector's own ranks before all."""

    columns: tuple[str, ...]
    since: int = SNAPSHOT_COMMIT_LSN

    def covers(self, other: Self) -> bool:
        """Whether what is kept has all of the other, since the same snapshot."""
        return self.since == other.since and {*self.columns} >= {*other.columns}


Kept = dict[TableName, KeptTable]


def kept_of(tables: Iterable[PlannedTable], snapshots: SideSnapshots | None = None) -> Kept:
    """What a history over these tables keeps. Raises SideSnapshotMissingError."""
    kept = {}
    for table in tables:
        came = None if snapshots is None else snapshots.of_late(table.name)
        since = SNAPSHOT_COMMIT_LSN if came is None else came.position
        kept[table.name] = KeptTable(table.columns, since)
    return kept


def kept_text(tables: Mapping[TableName, KeptTable]) -> str:
    """The property of a history that keeps these tables."""
    said = {
        str(table): {"columns": one.columns, "since": one.since} for table, one in tables.items()
    }
    return json.dumps(said, sort_keys=True)


def read_kept(properties: Mapping[str, str], description: str | None) -> Kept:
    """What a history keeps, by its table's properties.

    Earlier versions wrote the columns alone, as its description; all tables were of the connector's
    own snapshot then.
    """
    said = json.loads(properties.get(KEPT_TABLES) or description or "{}")
    kept = {}
    for table, one in said.items():
        schema, name = table.split(".", 1)
        of_table = {"columns": one} if isinstance(one, list) else one
        kept[TableName(schema, name)] = KeptTable(tuple(of_table.pop("columns")), **of_table)
    return kept
