"""Waits until streams have seen all that the database has committed."""

import time
from collections.abc import Iterable

from lockstep.errors import LakehouseError
from lockstep.model.modes import StreamMode
from lockstep.pipeline.names import cut_prefix
from lockstep.settings import Settings
from lockstep.sources.postgres import connect
from pizzeria.names import SOURCE, Login

from lockstep_tools.errors import SoakError
from lockstep_tools.soak import delta_log
from lockstep_tools.soak.change_logs import folder_of

MARKER_SECONDS = 1.0
"""A stream commits a frontier that moved without orders only now and then, when another
transaction comes; so it is given one every second."""
_MARKER = "SELECT pg_logical_emit_message(true, %s, 'soak')"
_NOW = "SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint"


def wait_until_caught_up(
    settings: Settings, modes: Iterable[StreamMode], seconds_max: float
) -> float:
    """Wait until each mode's table has all that is committed now; returns the seconds it took.

    Raises SoakError, naming the modes that lag and how far they came, after seconds_max.
    """
    started = time.monotonic()
    with connect(settings, Login.SHOP) as connection:
        (target,) = connection.execute(_NOW).fetchone()
        while behind := _behind(settings, modes, target):
            seconds = time.monotonic() - started
            if seconds > seconds_max:
                raise SoakError(f"not caught up with {target} after {seconds:.0f} s: {behind}")
            connection.execute(_MARKER, [cut_prefix(SOURCE)])
            time.sleep(MARKER_SECONDS)
    return time.monotonic() - started


def _behind(settings: Settings, modes: Iterable[StreamMode], target: int) -> dict[str, int]:
    frontiers = {str(mode): frontier_of(settings, mode) for mode in modes}
    return {mode: frontier for mode, frontier in frontiers.items() if frontier < target}


def frontier_of(settings: Settings, mode: StreamMode) -> int:
    """The frontier of the mode's table; -1 before there is one."""
    try:
        return delta_log.newest_frontier(folder_of(settings, mode))[1]
    except LakehouseError:
        return -1
