"""The row of cells that a page shows of each mode: one for each window of the pipeline."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from lockstep.ledger.entries import Comparison
from lockstep.ledger.formatting import SIGNS
from lockstep.model.modes import StreamMode
from lockstep.model.window import HOUR, Window
from lockstep.model.windows import Windows
from lockstep.parity_pages.words import cell_title, window_text

SHOWN = 48
"""Windows, up to the newest that was compared, where no others are asked for."""
_INSTANT = timedelta(microseconds=1)
_DAY = timedelta(days=1)
_MONDAY = 0
WindowUrl = Callable[[Window, StreamMode], str]


@dataclass(frozen=True)
class Grid:
    """windows: those shown, in their order. of: all of the pipeline."""

    of: Windows
    windows: Sequence[Window]

    @classmethod
    def up_to(cls, of: Windows, newest: datetime) -> "Grid":
        """The last ones up to that in which `newest`, the end of one, lies."""
        found = [of.at(newest - _INSTANT)]
        while len(found) < SHOWN:
            found.append(of.at(found[-1].start - _INSTANT))
        return cls(of, found[::-1])

    @classmethod
    def inside(cls, of: Windows, window: Window) -> "Grid":
        """Those that a stretch of time has a part of."""
        return cls(of, list(_touching(of, window)))

    @property
    def unit(self) -> str:
        """What a window is called."""
        return {HOUR: "hour", _DAY: "day"}.get(self.of.every, "window")

    @property
    def ticks(self) -> list[str]:
        """The text below each cell; of most it is empty."""
        return list(map(self._tick, self.windows))

    def cells(
        self, mode: StreamMode, lines: Sequence[Comparison], window_url: WindowUrl
    ) -> list[dict]:
        """A cell for each window; one that a longer comparison covers shows that.

        lines: the last of each window stays.
        """
        by_start = {
            window.start: line for line in lines for window in _touching(self.of, line.window)
        }
        cells = []
        for window in self.windows:
            line = by_start.get(window.start)
            if line is None:
                cells.append({"href": "", "title": f"{window_text(window)}: not compared"})
                continue
            cells.append(
                {
                    "href": window_url(line.window, mode),
                    "verdict": line.verdict,
                    "sign": SIGNS[line.verdict],
                    "title": cell_title(window, line),
                }
            )
        return cells

    def _tick(self, window: Window) -> str:
        start = window.start.astimezone(ZoneInfo(self.of.zone))
        if self.of.every == _DAY:
            return f"{start:%d %b}" if start.weekday() == _MONDAY else ""
        hours = 6 if self.of.every >= HOUR else 3
        return "" if start.minute or start.hour % hours else f"{start:%H:%M}"


def _touching(of: Windows, stretch: Window) -> Iterator[Window]:
    window = of.at(stretch.start)
    while window.start < stretch.end:
        yield window
        window = of.at(window.end)
