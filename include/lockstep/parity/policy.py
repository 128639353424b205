"""Which differences a mode tolerates: include/parity/<pipeline>.toml."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass

from lockstep.contracts import PIPELINE, DifferenceClass, StreamMode, Verdict
from lockstep.errors import ConfigurationError
from lockstep.settings import PROJECT_DIR

POLICY_FILE = PROJECT_DIR / "include" / "parity" / f"{PIPELINE}.toml"
TOLERABLE = frozenset({DifferenceClass.LOOKUP_RACE, DifferenceClass.DIMENSION_DRIFT})
"""Differences by design of a mode. Any other is a defect, whatever a policy would like."""


@dataclass(frozen=True)
class Policy:
    """tolerated: by mode, the classes that do not fail a window."""

    tolerated: Mapping[StreamMode, frozenset[DifferenceClass]]

    def verdict(self, mode: StreamMode, counts: Mapping[DifferenceClass, int]) -> Verdict:
        """Pass or fail; what changed after the cut is no part of it."""
        return Verdict.FAIL if self.failing(mode, counts) else Verdict.PASS

    def failing(
        self, mode: StreamMode, counts: Mapping[DifferenceClass, int]
    ) -> dict[DifferenceClass, int]:
        """The counts that fail the window."""
        passed_over = self.tolerated[mode] | {DifferenceClass.CHANGED_AFTER_CUT}
        return {kind: n for kind, n in counts.items() if n and kind not in passed_over}


def read_policy(text: str) -> Policy:
    """Raises ConfigurationError when the text names an unknown mode, or tolerates a defect."""
    try:
        told = tomllib.loads(text)["tolerated"]
        tolerated = {
            StreamMode(mode): frozenset(map(DifferenceClass, kinds)) for mode, kinds in told.items()
        }
    except (tomllib.TOMLDecodeError, KeyError, TypeError, ValueError) as error:
        raise ConfigurationError(f"{POLICY_FILE} cannot be used: {error}") from error
    for mode, kinds in tolerated.items():
        if kinds - TOLERABLE:
            raise ConfigurationError(
                f"{POLICY_FILE} tolerates {', '.join(sorted(kinds - TOLERABLE))} of mode {mode}; "
                f"only {' and '.join(sorted(TOLERABLE))} are differences by design"
            )
    return Policy({mode: tolerated.get(mode, frozenset()) for mode in StreamMode})
