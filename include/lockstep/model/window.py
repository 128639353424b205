"""Windows of a result's time column. Which windows a pipeline has: windows.py."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from lockstep.errors import WindowError


@dataclass(frozen=True)
class Window:
    """A half-open interval [start, end) of time; both bounds are UTC."""

    start: datetime
    end: datetime

    def __post_init__(self) -> None:
        for name in ("start", "end"):
            bound = getattr(self, name)
            if bound.tzinfo is None:
                raise WindowError(
                    f"window {name} {bound.isoformat()} has no time zone; "
                    f"write it as {bound.isoformat()}Z or with an offset"
                )
            object.__setattr__(self, name, bound.astimezone(UTC))
        if self.end <= self.start:
            raise WindowError(
                f"window end {self.end.isoformat()} is not after its start "
                f"{self.start.isoformat()}; windows are half-open [start, end)"
            )

    @classmethod
    def parse(cls, start: str, end: str) -> "Window":
        """Read two ISO 8601 instants; without a zone they are UTC.

        Raises WindowError when either cannot be read or the end is not after the start.
        """
        return cls(_parse_instant("start", start), _parse_instant("end", end))

    @property
    def duration(self) -> timedelta:
        return self.end - self.start

    def __str__(self) -> str:
        return f"[{self.start.isoformat()}, {self.end.isoformat()})"


HOUR = timedelta(hours=1)
WINDOW_DUE_AFTER = timedelta(minutes=5)
"""Lets what was written just before the hour commit before the hour is read."""


def _parse_instant(name: str, text: str) -> datetime:
    try:
        instant = datetime.fromisoformat(text)
    except ValueError as error:
        raise WindowError(
            f"window {name} {text!r} is not an ISO 8601 time such as 2015-01-01T11:00:00Z"
        ) from error
    return instant if instant.tzinfo else instant.replace(tzinfo=UTC)
