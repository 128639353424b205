"""Which hourly run wrote a window, and what was repaired since: found in the commits' metadata.

Each hourly run is one commit whose userMetadata says which window it replaced and how many orders
the database counted there at its cut; a repair is one that says which of those orders it merged,
at a cut of its own. Other commits (maintenance, somebody's hand) are passed over. Never reads rows.
"""

from dataclasses import dataclass
from typing import TypeVar

from deltalake import DeltaTable

from lockstep.cdc.cuts import Cut
from lockstep.cdc.run_commits import RepairCommit, RunCommit
from lockstep.contracts import Window
from lockstep.errors import WindowError, WindowNotWrittenError

_Told = TypeVar("_Told", RunCommit, RepairCommit)
_RECENT_COMMITS = 100
"""Looked at before the whole history: the run under check is nearly always the last commit."""


@dataclass(frozen=True)
class WrittenWindow:
    """The run that wrote a window, and the repairs of its rows, the oldest first."""

    run: RunCommit
    repairs: tuple[RepairCommit, ...] = ()

    @property
    def orders(self) -> int:
        """How many orders of the window the table is to hold."""
        return self.repairs[-1].orders_after if self.repairs else self.run.orders_at_cut

    @property
    def cuts(self) -> tuple[Cut, ...]:
        """The run's cut, then each repair's."""
        return (self.run.cut, *(repair.cut for repair in self.repairs))

    @property
    def last_cut(self) -> Cut:
        """A stream that has passed its marker has seen all that any of the window's rows tell."""
        return max(self.cuts, key=lambda cut: cut.marker_lsn)


def written_by(table: DeltaTable, window: Window) -> WrittenWindow:
    """The run that last replaced exactly this window, with the repairs since.

    Raises WindowNotWrittenError when there is none, or when a later run wrote over a part of the
    window: then its rows are that run's, and it is that run's window to check.
    """
    for limit in (_RECENT_COMMITS, None):
        repairs: list[RepairCommit] = []
        for commit in table.history(limit):
            repair = _told_in(commit, RepairCommit)
            if repair is not None and repair.window == window:
                repairs.append(repair)
            run = _told_in(commit, RunCommit)
            if run is None or not _overlap(run.window, window):
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


def _told_in(commit: dict, kind: type[_Told]) -> _Told | None:
    try:
        return kind.from_json(commit["userMetadata"])
    except (KeyError, TypeError, ValueError, WindowError):
        return None


def _overlap(one: Window, other: Window) -> bool:
    return one.start < other.end and other.start < one.end
