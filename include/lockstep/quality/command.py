"""The checks as commands: what `lockstep quality` and jobs/check_quality.py do."""

from collections.abc import Sequence

from rich.console import Console

from lockstep.errors import LakehouseError
from lockstep.model.modes import StreamMode
from lockstep.model.verdict import CheckStatus
from lockstep.model.window import Window
from lockstep.quality.check import check_window
from lockstep.quality.report import QualityReport
from lockstep.quality.stream_check import check_stream, modes_compared, newest_comparison
from lockstep.settings import Settings


def check_hourly(start: str, end: str) -> int:
    """Check the hourly table's window [start, end), ISO 8601, and print what was found.

    Returns 1 when a check failed, or else 0. Raises LockstepError as check_window does.
    """
    return _printed([check_window(Settings.load(), Window.parse(start, end))])


def check_streams(start: str, end: str, modes: Sequence[StreamMode]) -> int:
    """The same of the window's newest comparison with each mode (none: all it was compared with).

    Raises LakehouseError, too, when the window was not compared.
    """
    settings, window = Settings.load(), Window.parse(start, end)
    modes = modes or modes_compared(settings, window)
    if not modes:
        raise LakehouseError(
            f"the window {window} was never compared: `lockstep parity check` compares it"
        )
    lines = [newest_comparison(settings, window, mode) for mode in modes]
    return _printed([check_stream(settings, line) for line in lines])


def _printed(reports: Sequence[QualityReport]) -> int:
    console = Console(soft_wrap=True, markup=False, highlight=False)
    for report in reports:
        console.print(report.table())
        console.print(f"\nwindow {report.window}: {report.about}")
        console.print(report.summary())
        console.print(f"Data Docs: {report.data_docs / 'index.html'}\n")
    return 1 if any(report.status is CheckStatus.FAIL for report in reports) else 0
