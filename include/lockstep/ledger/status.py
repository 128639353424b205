"""How far each mode is verified, for the terminal."""

from collections.abc import Sequence
from datetime import datetime

from rich.table import Table

from lockstep.ledger.entries import Judged, newest_of_each_window
from lockstep.ledger.formatting import SIGNS, coloured
from lockstep.ledger.reached import verified
from lockstep.model.modes import StreamMode
from lockstep.model.verdict import Verdict

NEWEST = 24


def status_table(lines: Sequence[Judged], version: str) -> Table:
    """A row for each mode that was ever compared; the newest windows on the right.

    version: of the pipeline now.
    """
    table = Table(box=None, pad_edge=False)
    for title in ("mode", "verified since", "verified through", "windows", "newest"):
        table.add_column(title, justify="right" if title == "windows" else "left")
    for mode in StreamMode:
        mine = [line for line in lines if line.mode is mode]
        if not mine:
            continue
        windows = newest_of_each_window(mine)
        reach = verified(mine, version)
        table.add_row(
            mode,
            _time(reach and reach.since),
            _time(reach and reach.through),
            f"{len(windows):,}",
            "".join(coloured(line.verdict, SIGNS[line.verdict]) for line in windows[-NEWEST:]),
        )
    return table


def last_failed(lines: Sequence[Judged]) -> list[Judged]:
    """Of each mode that has one among its newest windows, the last that failed."""
    found = []
    for mode in StreamMode:
        windows = newest_of_each_window(line for line in lines if line.mode is mode)
        found += [line for line in windows[-NEWEST:] if line.verdict is Verdict.FAIL][-1:]
    return found


def _time(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment:%Y-%m-%d %H:%M}Z"
