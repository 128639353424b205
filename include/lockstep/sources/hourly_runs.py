"""Which hourly run wrote a window: found in the commit metadata of the hourly table.

Each hourly run is one commit whose userMetadata says which window it replaced and how many orders
the database counted there at its cut. Other commits (maintenance, somebody's hand) are passed over.
Never reads rows.
"""

from deltalake import DeltaTable

from lockstep.cdc.run_commits import RunCommit
from lockstep.contracts import Window
from lockstep.errors import WindowError, WindowNotWrittenError

_RECENT_COMMITS = 100
"""Looked at before the whole history: the run under check is nearly always the last commit."""


def run_of(table: DeltaTable, window: Window) -> RunCommit:
    """The run that last replaced exactly this window.

    Raises WindowNotWrittenError when there is none, or when a later run wrote over a part of the
    window: then its rows are that run's, and it is that run's window to check.
    """
    for limit in (_RECENT_COMMITS, None):
        for commit in table.history(limit):
            run = _run_in(commit)
            if run is None or not _overlap(run.window, window):
                continue
            if run.window == window:
                return run
            raise WindowNotWrittenError(
                f"the window {window} was last written by the run {run.cut.run_id} of "
                f"{run.window}: check that window, or run {window} again"
            )
    raise WindowNotWrittenError(
        f"no run replaced exactly the window {window} in the history of {table.table_uri} (kept "
        "for 30 days): `lockstep batch run` writes it"
    )


def _run_in(commit: dict) -> RunCommit | None:
    try:
        return RunCommit.from_json(commit["userMetadata"])
    except (KeyError, TypeError, ValueError, WindowError):
        return None


def _overlap(one: Window, other: Window) -> bool:
    return one.start < other.end and other.start < one.end
