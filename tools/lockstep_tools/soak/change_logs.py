"""Opens the streams' change logs for the checks, each at a version whose frontier is known."""

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable
from lockstep.model.modes import StreamMode
from lockstep.settings import Settings
from lockstep.sources.delta import run_query
from pizzeria.names import change_log_table

from lockstep_tools.soak import delta_log

_SQL = Path(__file__).with_name("sql")


@dataclass(frozen=True)
class ChangeLog:
    """One version of a mode's change log; it holds every transaction up to its frontier."""

    mode: StreamMode
    table: DeltaTable
    frontier: int


def open_change_log(settings: Settings, mode: StreamMode) -> ChangeLog:
    """The newest version. Raises LakehouseError when the mode has written none."""
    folder = folder_of(settings, mode)
    version, frontier = delta_log.newest_frontier(folder)
    return ChangeLog(mode, DeltaTable(str(folder), version=version), frontier)


def folder_of(settings: Settings, mode: StreamMode) -> Path:
    """The checks read the tables' files themselves, so the lakehouse has to be a folder."""
    return Path(settings.table_uri(change_log_table(mode)))


def ask(name: str, tables: dict[str, DeltaTable], **values: int) -> pa.Table:
    """The answer of include/sql/<pipeline>/soak/<name>.sql over these tables."""
    sql = (_SQL / f"{name}.sql").read_text(encoding="utf-8").format(**values)
    return run_query(sql, tables).read_all()
