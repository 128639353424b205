"""Whether a mode's differences fail a window, by what the pipeline's manifest tolerates. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from lockstep.model.modes import StreamMode
from lockstep.model.verdict import DifferenceClass, Verdict
from lockstep.pipeline.modes import Mode
from lockstep.pipeline.tolerate import Tolerate


@dataclass(frozen=True)
class Policy:
    """tolerate: of the manifest. The greater of raced_share_max of a window's rows and
    raced_rows_always may be a tolerated lookup_race.
    """

    tolerate: Tolerate

    def verdict(
        self, mode: StreamMode, counts: Mapping[DifferenceClass, int], rows: int
    ) -> Verdict:
        """Pass or fail of a window of so many rows; changes after the cut are no part of it."""
        return Verdict.FAIL if self.failing(mode, counts, rows) else Verdict.PASS

    def failing(
        self, mode: StreamMode, counts: Mapping[DifferenceClass, int], rows: int
    ) -> dict[DifferenceClass, int]:
        """The counts that fail a window of so many rows."""
        limits = {kind: self.limit(mode, kind, rows) for kind in counts}
        return {k: n for k, n in counts.items() if limits[k] is not None and n > limits[k]}

    def limit(self, mode: StreamMode, kind: DifferenceClass, rows: int) -> int | None:
        """How many of a window's rows may be of a class; None if any number may."""
        if kind is DifferenceClass.CHANGED_AFTER_CUT:
            return None
        if not self.tolerates(mode, kind):
            return 0
        if kind is DifferenceClass.LOOKUP_RACE:
            share = int(self.tolerate.raced_share_max * rows)
            return max(self.tolerate.raced_rows_always, share)
        return None

    def tolerates(self, mode: StreamMode, kind: DifferenceClass) -> bool:
        """Whether the manifest lists the class for the mode."""
        return str(kind) in map(str, self.tolerate.of(Mode(mode)))

    def reason(self, mode: StreamMode, counts: Mapping[DifferenceClass, int], rows: int) -> str:
        """Why a window of so many rows fails; empty if it does not."""
        reasons = []
        for kind, count in self.failing(mode, counts, rows).items():
            text = f"{count:,} {kind}"
            if limit := self.limit(mode, kind, rows):
                text += (
                    f" of {rows:,} rows ({count / rows:.1%}; the limit is {limit:,}: "
                    f"{self.tolerate.raced_share_max:.1%}, or {self.tolerate.raced_rows_always} "
                    "rows)"
                )
            reasons.append(text)
        return ", ".join(reasons)
