"""What maintenance found of one thing and did about it. Nothing is done here."""

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """KEPT grows for good, by design; OWNER does the work itself, for it alone may write there;
    SKIPPED was busy or cannot be done from here, which the next run may be able to."""

    DONE = "done"
    KEPT = "kept for good"
    OWNER = "left to owner"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(frozen=True)
class Outcome:
    """One line of the report.

    before_bytes: its size on the disk before; None where it is not known in bytes.
    freed_bytes: what was freed; of a dry run, what would be.
    """

    what: str
    where: str
    state: State
    before_bytes: int | None = None
    freed_bytes: int = 0
    note: str = ""
