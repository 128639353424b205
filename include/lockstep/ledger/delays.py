"""How long each row of a window took until it could be read, by hourly run and by stream."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from deltalake import DeltaTable

from lockstep.model.modes import StreamMode
from lockstep.model.window import Window
from lockstep.pipeline.plan import Plan
from lockstep.pipeline.row_keys import quoted
from lockstep.settings import Settings
from lockstep.sinks.window_conditions import of_time
from lockstep.sources.delta import open_table, run_query
from lockstep.sources.hourly_runs import written_by

SHOWN_MAX = 400
"""Rows of a series; of more, every so-manieth."""


@dataclass(frozen=True)
class Delay:
    """A row was committed at that moment, and readable so many seconds later."""

    committed_at: datetime
    seconds: float


@dataclass(frozen=True)
class Delays:
    """batch: until the hourly run, or a repair, read it (it is readable a few seconds later)."""

    batch: Sequence[Delay]
    stream: Sequence[Delay]


def delays_of(settings: Settings, plan: Plan, window: Window, mode: StreamMode) -> Delays:
    """Raises LakehouseError or WindowNotWrittenError when a table or the window is not there."""
    hourly = open_table(settings.table_uri(settings.names.hourly_table))
    log = open_table(settings.table_uri(settings.names.change_log(mode)))
    taken_at = {cut.run_id: cut.taken_at for cut in written_by(hourly, window).cuts}
    within = of_time(window, quoted(plan.time))
    batch = f"""
        SELECT origin['committed_at'] AS committed_at, run_id
        FROM rows_of WHERE {within} AND origin['committed_at'] IS NOT NULL ORDER BY 1
    """  # noqa: S608 - a quoted name and times
    stream = f"""
        SELECT committed_at, written_at
        FROM rows_of WHERE {within} AND op = 'c' AND tx_id IS NOT NULL ORDER BY 1
    """  # noqa: S608 - a quoted name and times
    return Delays(
        [
            Delay(at, (taken_at[run] - at).total_seconds())
            for at, run in _some(batch, hourly)
            if run in taken_at
        ],
        [Delay(at, (read - at).total_seconds()) for at, read in _some(stream, log)],
    )


def _some(query: str, table: DeltaTable) -> list[tuple[datetime, ...]]:
    rows = run_query(query, {"rows_of": table}).read_all()
    step = -(-rows.num_rows // SHOWN_MAX) or 1
    columns = [column.to_pylist()[::step] for column in rows.columns]
    return list(zip(*columns, strict=True))
