"""The rows of a comparison that differ, as Spark gives them and with what explains them. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from lockstep.model.verdict import DifferenceClass
from lockstep.parity.cause import Change
from lockstep.parity.differences import COMMIT, key_names, value_names, values_of
from lockstep.parity.versions import Version
from lockstep.pipeline.plan import Plan
from lockstep.pipeline.row_keys import Key

Values = Mapping[str, Any]
"""The columns of a row that are not in its key, by name."""


@dataclass(frozen=True)
class Commit:
    """Of a row of the change log what it says of its transaction."""

    op: str
    tx_id: int | None
    commit_lsn: int
    committed_at: datetime | None


@dataclass(frozen=True)
class StreamRow:
    """A row of the change log. looked_up_at: the snapshot of its look-up, where that is kept."""

    values: Values
    commit: Commit
    is_raced: bool = False
    looked_up_at: str | None = None


@dataclass(frozen=True)
class Seen:
    """The version of the fact's row that a raced look-up saw, and what had been done to it."""

    op: str
    version: Version


@dataclass(frozen=True)
class DifferingRow:
    """A row that differs. batch: its values in the hourly table, if it is there.

    origin: what the hourly table says of the fact's row: tx_id and committed_at; None where it does
    not. stream: the last change that the row's cut sees; after_cut: the last one that it does not
    see. batch_rows: how often the hourly table has the key. columns: those that differ.

    From the source's history, where it was asked (explained.py):
    - in_source: the fact's own row as the cut sees it; None when it is not there;
    - causes: of each differing column, what changed it between the stream's point and the cut;
    - seen: what a raced look-up saw of the fact's row; None when it did not see it;
    - by_query: what the query gives at the stream's point, and at the cut; None where that is not
      exactly one row.
    """

    kind: DifferenceClass
    key: Key
    batch: Values | None
    origin: Mapping[str, Any] | None
    stream: StreamRow | None
    after_cut: Commit | None
    in_stream: bool
    batch_rows: int
    repeated_changes: int
    columns: tuple[str, ...]
    in_source: Version | None = None
    causes: Mapping[str, tuple[Change, ...]] = field(default_factory=dict)
    seen: Seen | None = None
    by_query: tuple[Values | None, Values | None] | None = None


def differing_row(plan: Plan, row: Mapping[str, Any]) -> DifferingRow:
    """A row as differences_sql gives it."""
    names = values_of(plan)
    batch, stream, after = row["batch"], row["stream"], row["after_cut"]
    return DifferingRow(
        kind=DifferenceClass(row["class"]),
        key=tuple(row[name] for name in key_names(plan)),
        batch=batch and _values(plan, batch),
        origin=batch and batch["origin"],
        stream=stream
        and StreamRow(
            _values(plan, stream), _commit(stream), stream["is_raced"], stream["look_up"]
        ),
        after_cut=after and _commit(after),
        in_stream=row["in_stream"],
        batch_rows=row["batch_rows"],
        repeated_changes=row["repeated_changes"],
        columns=tuple(names[place] for place in row["differing"]),
    )


def _commit(change: Mapping[str, Any]) -> Commit:
    return Commit(*(change[name] for name in COMMIT))


def _values(plan: Plan, fields: Mapping[str, Any]) -> Values:
    return dict(zip(values_of(plan), (fields[n] for n in value_names(plan)), strict=True))
