"""What a commit of the hourly table says about it: written by run or repair, read by the checks.

Standard library only, besides the project's own value types: Airflow's tasks read it too.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lockstep.cdc.cuts import Cut
from lockstep.model.modes import ReadMode
from lockstep.model.window import Window


@dataclass(frozen=True)
class RunCommit:
    """One hourly run, as its Delta commit's userMetadata holds it.

    window: None of a run that replaced the whole table, of a pipeline without a time.
    orders_at_cut: rows of the fact in the window, counted by the database in the run's own
        snapshot; rows of the result where no column of the fact says which these are.
    pipeline_version: as pipeline/version.py makes it; empty in commits of before versions.
    """

    window: Window | None
    read_mode: ReadMode
    orders_at_cut: int
    cut: Cut
    pipeline_version: str = ""

    def as_json(self) -> str:
        """The text for the commit's userMetadata; from_json reads it back."""
        return json.dumps(
            {
                **_window_and_cut(self.window, self.cut),
                "read_mode": str(self.read_mode),
                "orders_at_cut": self.orders_at_cut,
                **({"pipeline_version": self.pipeline_version} if self.pipeline_version else {}),
            }
        )

    @classmethod
    def from_json(cls, text: str) -> "RunCommit":
        """Raises KeyError, TypeError, ValueError or WindowError when the text is not a run's."""
        fields = json.loads(text)
        return cls(
            window=_window_in(fields),
            read_mode=ReadMode(fields["read_mode"]),
            orders_at_cut=fields["orders_at_cut"],
            cut=_cut_in(fields),
            pipeline_version=fields.get("pipeline_version", ""),
        )


@dataclass(frozen=True)
class RepairCommit:
    """One repair of a window that a run wrote, as its Delta commit's userMetadata holds it.

    repaired_run_id: the hourly run whose rows were repaired; the cut's run_id is the repair's own.
    row_keys: of the rows that the table has as the repair's snapshot sees them, or no more;
        integers where a key is one, else their canonical texts.
    orders_after: rows of the window that the commit left.
    approved_by: who said that just these orders are to be merged.
    """

    window: Window
    repaired_run_id: str
    row_keys: tuple[int | str, ...]
    orders_after: int
    approved_by: str
    cut: Cut

    def as_json(self) -> str:
        """The text for the commit's userMetadata; from_json reads it back."""
        return json.dumps(
            {
                **_window_and_cut(self.window, self.cut),
                "repaired_run_id": self.repaired_run_id,
                "row_keys": self.row_keys,
                "orders_after": self.orders_after,
                "approved_by": self.approved_by,
            }
        )

    @classmethod
    def from_json(cls, text: str) -> "RepairCommit":
        """Raises KeyError, TypeError, ValueError or WindowError when the text is not a repair's."""
        fields = json.loads(text)
        return cls(
            window=_window_in(fields),
            repaired_run_id=fields["repaired_run_id"],
            row_keys=tuple(_row_keys_in(fields)),
            orders_after=fields["orders_after"],
            approved_by=fields["approved_by"],
            cut=_cut_in(fields),
        )


def _row_keys_in(fields: Mapping[str, Any]) -> list[int | str]:
    """Versions before December 2026 gave them another name; they are the only list."""
    if "row_keys" in fields:
        return fields["row_keys"]
    [keys] = [value for value in fields.values() if isinstance(value, list)]
    return keys


def _window_and_cut(window: Window | None, cut: Cut) -> dict[str, Any]:
    return {
        "run_id": cut.run_id,
        "window": window and {"start": window.start.isoformat(), "end": window.end.isoformat()},
        "cut": {
            "snapshot": cut.snapshot,
            "marker_lsn": cut.marker_lsn,
            "taken_at": cut.taken_at.isoformat(),
        },
    }


def _window_in(fields: Mapping[str, Any]) -> Window | None:
    if fields["window"] is None:
        return None
    return Window.parse(fields["window"]["start"], fields["window"]["end"])


def _cut_in(fields: Mapping[str, Any]) -> Cut:
    cut = fields["cut"]
    return Cut(
        run_id=fields["run_id"],
        snapshot=cut["snapshot"],
        marker_lsn=cut["marker_lsn"],
        taken_at=datetime.fromisoformat(cut["taken_at"]),
    )
