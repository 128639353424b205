"""Which hourly run wrote a window, and what was repaired since: found in the commits' metadata.

Each hourly run is one commit whose userMetadata says which window it replaced and how many rows
the database counted there at its cut; a repair is one that says which of those rows it merged,
at a cut of its own. Other commits (maintenance, a user's own) are passed over. Reads no rows, but
the times of all where no commit says which hours there are.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC
from typing import TypeVar

from deltalake import DeltaTable

from lockstep.cdc.cuts import Cut
from lockstep.cdc.run_commits import RepairCommit, RunCommit
from lockstep.errors import LakehouseError, WindowError, WindowNotWrittenError
from lockstep.model.window import HOUR, Window
from lockstep.pipeline.delta_types import arrow_type
from lockstep.pipeline.result_tables import ORIGIN_WITH_CHILDREN
from lockstep.pipeline.row_keys import quoted
from lockstep.settings import Settings
from lockstep.sources.delta import open_table, run_query

_Metadata = TypeVar("_Metadata", RunCommit, RepairCommit)
_RECENT_COMMITS = 100
"""Looked at before the whole history: the run under check is nearly always the last commit."""

_KEEPS_ROWS = {"OPTIMIZE", "VACUUM START", "VACUUM END", "SET TBLPROPERTIES", "ADD COLUMN"}
"""Operations of maintenance. What any other commit of no run has changed is not known."""
HOURLY_PARTITIONS_OF_BEFORE = ("order_date", "order_hour")
"""Of the table as earlier versions wrote it; `lockstep upgrade` writes it as it is now."""
SAME_ROWS = "lockstep.same_rows"
"""In a commit of ours that writes the same rows in another layout."""


@dataclass(frozen=True)
class WrittenWindow:
    """The run that wrote a window, and the repairs of its rows, the oldest first."""

    run: RunCommit
    repairs: tuple[RepairCommit, ...] = ()

    @property
    def rows(self) -> int:
        """How many rows of the window the table is to hold."""
        return self.repairs[-1].orders_after if self.repairs else self.run.orders_at_cut

    @property
    def cuts(self) -> tuple[Cut, ...]:
        """The run's cut, then each repair's."""
        return (self.run.cut, *(repair.cut for repair in self.repairs))

    @property
    def last_cut(self) -> Cut:
        """A stream that has passed its marker has seen all that any of the window's rows hold."""
        return max(self.cuts, key=lambda cut: cut.marker_lsn)


def written_by(table: DeltaTable, window: Window) -> WrittenWindow:
    """The run that last replaced exactly this window, with the repairs since.

    Raises WindowNotWrittenError when there is none, or when a later run wrote over a part of the
    window: then its rows are that run's, and it is that run's window to check. Raises
    LakehouseError for a table that is to be upgraded first.
    """
    require_layout(table)
    for limit in (_RECENT_COMMITS, None):
        repairs: list[RepairCommit] = []
        for commit in table.history(limit):
            repair = _metadata_of(commit, RepairCommit)
            if repair is not None and repair.window == window:
                repairs.append(repair)
            run = _metadata_of(commit, RunCommit)
            if run is None or run.window is None or not _overlap(run.window, window):
                continue
            if run.window == window:
                return WrittenWindow(run, tuple(reversed(repairs)))
            raise WindowNotWrittenError(
                f"the window {window} was last written by the run {run.cut.run_id} of "
                f"{run.window}: check that window, or run {window} again"
            )
    raise WindowNotWrittenError(
        f"no run replaced exactly the window {window} in the history of {table.table_uri} (kept "
        "for 30 days): `lockstep batch run` writes it"
    )


def open_hourly(settings: Settings) -> DeltaTable | None:
    """The hourly table; None before the first run."""
    uri = settings.table_uri(settings.names.hourly_table)
    return open_table(uri) if DeltaTable.is_deltatable(uri) else None


def require_layout(table: DeltaTable) -> None:
    """Raise LakehouseError for an hourly table as earlier versions laid it out."""
    if is_of_before(table):
        raise LakehouseError(
            f"the table {table.table_uri} is laid out as by an earlier version (in partitions by "
            f"{', '.join(HOURLY_PARTITIONS_OF_BEFORE)}, or with more in its column origin): stop "
            "what runs, then `lockstep upgrade` writes its rows as this version reads them"
        )


def is_of_before(table: DeltaTable) -> bool:
    """Whether the hourly table is laid out as earlier versions did."""
    return has_hours_of_before(table) or has_more_fields(table, ORIGIN_WITH_CHILDREN)


def has_hours_of_before(table: DeltaTable) -> bool:
    """Whether its partitions are hours, not days."""
    return tuple(table.metadata().partition_columns) == HOURLY_PARTITIONS_OF_BEFORE


def has_more_fields(table: DeltaTable, column: Mapping[str, str]) -> bool:
    """Whether a table's struct has fields that it has no more. column: name and Delta type."""
    [(name, kind)] = column.items()
    types = {field.name: field.type for field in table.schema().fields}
    read = {field.name for field in arrow_type(kind)}
    return name in types and any(field.name not in read for field in types[name].fields)


def newest_run(table: DeltaTable) -> RunCommit | None:
    """The run that wrote last; None when the history has none."""
    for limit in (_RECENT_COMMITS, None):
        for commit in table.history(limit):
            if (run := _metadata_of(commit, RunCommit)) is not None:
                return run
    return None


def rows_of_newest_run(settings: Settings) -> int | None:
    """How many rows the run that wrote last has counted; None before the first.

    The next run, and a comparison, are over about as many. Raises LakehouseError.
    """
    table = open_hourly(settings)
    run = newest_run(table) if table else None
    return run.orders_at_cut if run else None


def windows_since(table: DeltaTable, version: int | None, time: str) -> list[Window]:
    """The windows that commits after this version wrote to, joined where they touch, in order.

    time: the column that says which window a row is in.

    All windows that the table has when the commits do not say it: None is given, their history is
    no longer kept, one that changed rows was neither run nor repair, or the version is not of this
    table. Raises LakehouseError for a table that is to be upgraded first.
    """
    require_layout(table)
    commits_after = -1 if version is None else table.version() - version
    if commits_after == 0:
        return []
    commits = table.history(commits_after) if commits_after > 0 else []
    windows = [_window_of(commit) for commit in commits if not _keeps_rows(commit)]
    if commits_after < 0 or len(commits) < commits_after or None in windows:
        return _all_windows(table, time)
    return joined(windows)


def joined(windows: Iterable[Window]) -> list[Window]:
    """The same instants in the fewest windows, in order."""
    found: list[Window] = []
    for window in sorted(windows, key=lambda one: one.start):
        if found and window.start <= found[-1].end:
            found[-1] = Window(found[-1].start, max(found[-1].end, window.end))
        else:
            found.append(window)
    return found


def _all_windows(table: DeltaTable, time: str) -> list[Window]:
    """Those of the runs, hours that one found empty among them; and of each other hour with rows.

    An hour with rows that no run of the kept history touches is taken to be whole.
    """
    found = (_metadata_of(commit, RunCommit) for commit in table.history())
    runs = joined(run.window for run in found if run is not None)
    hour = f"date_trunc('hour', {quoted(time)})"
    query = f"SELECT DISTINCT {hour} AS start FROM hourly"  # noqa: S608 - a quoted name only
    found_hours = run_query(query, {"hourly": table}).read_all()["start"].to_pylist()
    starts = [start.replace(tzinfo=UTC) for start in found_hours]  # that of a date has no zone
    hours = [Window(start, start + HOUR) for start in starts]
    others = [one for one in hours if not any(_overlap(one, run) for run in runs)]
    return joined([*runs, *others])


def _keeps_rows(commit: dict) -> bool:
    return SAME_ROWS in commit or commit.get("operation") in _KEEPS_ROWS


def _window_of(commit: dict) -> Window | None:
    found = _metadata_of(commit, RunCommit) or _metadata_of(commit, RepairCommit)
    return None if found is None else found.window


def _metadata_of(commit: dict, kind: type[_Metadata]) -> _Metadata | None:
    try:
        return kind.from_json(commit["userMetadata"])
    except (KeyError, TypeError, ValueError, WindowError):
        return None


def _overlap(one: Window, other: Window) -> bool:
    return one.start < other.end and other.start < one.end
