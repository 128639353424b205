"""How much memory a driver is expected to take, and whether the machine has it."""

import re

import psutil

from lockstep.errors import StreamError
from lockstep.settings import Settings

BASE_BYTES = 350 * 1024**2
"""In addition to the heap: the JVM's own, Python, Arrow. Measured: docs/decisions/streams.md."""
MODE_BYTES = 160 * 1024**2
"""For each mode: its query, Delta's pages, and what it keeps of looked-up rows."""
_UNITS = {"": 1024**2, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
"""As Spark reads them; a number alone is in MiB."""


def expected_bytes(settings: Settings, modes: int) -> int:
    """Resident memory of a driver that hosts so many modes, its JVM's heap full."""
    return _heap_bytes(settings.spark_driver_memory) + BASE_BYTES + modes * MODE_BYTES


def require_memory(settings: Settings, modes: int, *, join: bool = False) -> None:
    """Raise DriverTooLargeError when the machine has less available than a driver is to take.

    join: the modes join a driver that runs, and take only what is theirs.
    """
    expected = modes * MODE_BYTES if join else expected_bytes(settings, modes)
    available = psutil.virtual_memory().available
    if expected > available:
        raise DriverTooLargeError(expected, available, modes)


def _heap_bytes(text: str) -> int:
    found = re.fullmatch(r"(\d+)([kmgt]?)b?", text.strip().lower())
    return int(found[1]) * _UNITS[found[2]] if found else 0  # Spark says what is wrong with it


class DriverTooLargeError(StreamError):
    """The machine has no room for another driver now."""

    def __init__(self, expected: int, available: int, modes: int) -> None:
        super().__init__(
            f"{modes} streams more take up to {_mib(expected)} of memory, with the driver if none "
            f"of their source runs, and {_mib(available)} are available: stop other streams, or "
            "set LOCKSTEP_SPARK_DRIVER_MEMORY lower"
        )
        self.expected, self.available = expected, available


def _mib(size: int) -> str:
    return f"{size / 1024**2:,.0f} MiB"
