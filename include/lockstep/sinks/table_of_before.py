"""Where earlier versions had a table, and the refusal to write next to it.

They had one pipeline, with all of its tables in one folder of the lakehouse, and names that were no
addresses. `lockstep upgrade` moves them.
"""

from pathlib import Path

from lockstep.errors import LakehouseError
from lockstep.pipeline.modes import Mode
from lockstep.pipeline.names import sql_name

_NAMES = {
    "ledger": "parity_ledger",
    "differences": "parity_differences",
    "cutovers": "cutovers",
    "quarantine": "stream_quarantine",
}


def name_of_before(table: str) -> str | None:
    """The last step of a table's path as it was; None of a table that earlier versions had not.

    table: its path below the lakehouse.
    """
    last = sql_name(table)
    owner, separator, what = last.partition("__")
    if not separator:
        return last
    return f"{owner}_{what}" if what in set(Mode) else _NAMES.get(what)


def folder_of_before(lakehouse: Path, table: str) -> Path | None:
    """The folder in which an earlier version left the table; None when there is none."""
    name = name_of_before(table)
    if name is None:
        return None
    found = (log.parent for log in lakehouse.glob(f"*/{name}/_delta_log"))
    return next((folder for folder in found if folder != lakehouse / table), None)


def require_moved(lakehouse: Path | None, table: str) -> None:
    """Raise LakehouseError where an earlier version's table is not moved yet.

    lakehouse: its folder; None of an object store, where nothing is looked for.
    """
    folder = None if lakehouse is None else folder_of_before(lakehouse, table)
    if folder is not None:
        raise LakehouseError(
            f"{folder} is of an earlier version, and this one has the table in "
            f"{lakehouse / table}: stop what runs, then `lockstep upgrade` moves it"
        )
