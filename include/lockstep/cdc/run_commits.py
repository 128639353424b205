"""What the commit of an hourly run says about it: written by the run, read back by the checks.

Standard library only, besides the project's own value types: Airflow's tasks read it too.
"""

import json
from dataclasses import dataclass
from datetime import datetime

from lockstep.cdc.cuts import Cut
from lockstep.contracts import ReadMode, Window


@dataclass(frozen=True)
class RunCommit:
    """One hourly run, as its Delta commit's userMetadata holds it.

    orders_at_cut: orders of the window, counted by the database in the run's own snapshot.
    """

    window: Window
    read_mode: ReadMode
    orders_at_cut: int
    cut: Cut

    def as_json(self) -> str:
        """The text for the commit's userMetadata; from_json reads it back."""
        return json.dumps(
            {
                "run_id": self.cut.run_id,
                "window": {
                    "start": self.window.start.isoformat(),
                    "end": self.window.end.isoformat(),
                },
                "read_mode": str(self.read_mode),
                "orders_at_cut": self.orders_at_cut,
                "cut": {
                    "snapshot": self.cut.snapshot,
                    "marker_lsn": self.cut.marker_lsn,
                    "taken_at": self.cut.taken_at.isoformat(),
                },
            }
        )

    @classmethod
    def from_json(cls, text: str) -> "RunCommit":
        """Raises KeyError, TypeError, ValueError or WindowError when the text is not a run's."""
        fields = json.loads(text)
        cut = fields["cut"]
        return cls(
            window=Window.parse(fields["window"]["start"], fields["window"]["end"]),
            read_mode=ReadMode(fields["read_mode"]),
            orders_at_cut=fields["orders_at_cut"],
            cut=Cut(
                run_id=fields["run_id"],
                snapshot=cut["snapshot"],
                marker_lsn=cut["marker_lsn"],
                taken_at=datetime.fromisoformat(cut["taken_at"]),
            ),
        )
