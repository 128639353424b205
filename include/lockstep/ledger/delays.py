"""How long each row of a window took until it could be read, by hourly run and by each stream."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from deltalake import DeltaTable

from lockstep.errors import LakehouseError
from lockstep.model.modes import StreamMode
from lockstep.model.window import Window
from lockstep.pipeline.plan import Plan
from lockstep.pipeline.row_keys import quoted
from lockstep.settings import Settings
from lockstep.sinks.window_conditions import of_time
from lockstep.sources.delta import open_table, run_query
from lockstep.sources.hourly_runs import written_by

SHOWN_MAX = 200
"""Rows of a series; of more, every so-manieth."""


@dataclass(frozen=True)
class Delay:
    """A row was committed at that moment, and readable so many seconds later."""

    committed_at: datetime
    seconds: float


@dataclass(frozen=True)
class Delays:
    """batch: until the hourly run, or a repair, read it (it is readable a few seconds later).

    streams: of each mode that wrote rows of the window, in the modes' usual order.
    """

    batch: Sequence[Delay]
    streams: Mapping[StreamMode, Sequence[Delay]]


def delays_of(settings: Settings, plan: Plan, window: Window) -> Delays:
    """Of the hourly run and of every stream; without those whose table cannot be read now.

    Raises LakehouseError or WindowNotWrittenError when the hourly table or the window is not there.
    """
    hourly = open_table(settings.table_uri(settings.names.hourly_table))
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
        {mode: rows for mode in StreamMode if (rows := _of_stream(settings, mode, stream))},
    )


def _of_stream(settings: Settings, mode: StreamMode, query: str) -> Sequence[Delay]:
    uri = settings.table_uri(settings.names.change_log(mode))
    with suppress(LakehouseError):  # of a mode that was never started, for one
        rows = _some(query, open_table(uri))
        return [Delay(at, (read - at).total_seconds()) for at, read in rows]
    return []


def _some(query: str, table: DeltaTable) -> list[tuple[datetime, ...]]:
    rows = run_query(query, {"rows_of": table}).read_all()
    step = -(-rows.num_rows // SHOWN_MAX) or 1
    columns = [column.to_pylist()[::step] for column in rows.columns]
    return list(zip(*columns, strict=True))
