"""Which differences a mode tolerates: include/parity/<pipeline>.toml."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from lockstep.errors import ConfigurationError
from lockstep.model.modes import StreamMode
from lockstep.model.verdict import DifferenceClass, Verdict
from lockstep.pizzeria import PIPELINE

POLICY_FILE = Path("include", "parity", f"{PIPELINE}.toml")
"""Below the project's folder."""
TOLERABLE = frozenset({DifferenceClass.LOOKUP_RACE, DifferenceClass.DIMENSION_DRIFT})
"""Differences by design of a mode. Any other is a defect, whatever a policy would like."""


@dataclass(frozen=True)
class Policy:
    """tolerated: by mode, the classes that do not fail a window.

    raced_share_max, raced_orders_always: the greater of this share of a window's orders and this
        number may be a tolerated lookup_race.
    """

    tolerated: Mapping[StreamMode, frozenset[DifferenceClass]]
    raced_share_max: Decimal
    raced_orders_always: int

    def verdict(
        self, mode: StreamMode, counts: Mapping[DifferenceClass, int], orders: int
    ) -> Verdict:
        """Pass or fail of a window of so many orders; changes after the cut are no part of it."""
        return Verdict.FAIL if self.failing(mode, counts, orders) else Verdict.PASS

    def failing(
        self, mode: StreamMode, counts: Mapping[DifferenceClass, int], orders: int
    ) -> dict[DifferenceClass, int]:
        """The counts that fail a window of so many orders."""
        limits = {kind: self.limit(mode, kind, orders) for kind in counts}
        return {k: n for k, n in counts.items() if limits[k] is not None and n > limits[k]}

    def limit(self, mode: StreamMode, kind: DifferenceClass, orders: int) -> int | None:
        """How many of a window's orders may be of a class; None if any number may."""
        if kind is DifferenceClass.CHANGED_AFTER_CUT:
            return None
        if kind not in self.tolerated[mode]:
            return 0
        if kind is DifferenceClass.LOOKUP_RACE:
            return max(self.raced_orders_always, int(self.raced_share_max * orders))
        return None

    def reason(self, mode: StreamMode, counts: Mapping[DifferenceClass, int], orders: int) -> str:
        """Why a window of so many orders fails; empty if it does not."""
        reasons = []
        for kind, count in self.failing(mode, counts, orders).items():
            text = f"{count:,} {kind}"
            if limit := self.limit(mode, kind, orders):
                text += (
                    f" of {orders:,} orders ({count / orders:.1%}; the limit is {limit:,}: "
                    f"{self.raced_share_max:.1%}, or {self.raced_orders_always} orders)"
                )
            reasons.append(text)
        return ", ".join(reasons)


def read_policy(text: str) -> Policy:
    """Raises ConfigurationError when the text names an unknown mode, tolerates a defect, or has no
    limit of raced orders.
    """
    try:
        policy = tomllib.loads(text, parse_float=Decimal)
        tolerated = {
            StreamMode(mode): frozenset(map(DifferenceClass, kinds))
            for mode, kinds in policy["tolerated"].items()
        }
        share, always = _raced_limit(policy)
    except (ArithmeticError, KeyError, TypeError, ValueError) as error:
        raise ConfigurationError(f"{POLICY_FILE} cannot be used: {error}") from error
    for mode, kinds in tolerated.items():
        if kinds - TOLERABLE:
            raise ConfigurationError(
                f"{POLICY_FILE} tolerates {', '.join(sorted(kinds - TOLERABLE))} of mode {mode}; "
                f"only {' and '.join(sorted(TOLERABLE))} are differences by design"
            )
    of_modes = {mode: tolerated.get(mode, frozenset()) for mode in StreamMode}
    return Policy(of_modes, share, always)


def _raced_limit(policy: Mapping[str, object]) -> tuple[Decimal, int]:
    share, always = Decimal(policy["raced_share_max"]), int(policy["raced_orders_always"])
    if not 0 <= share <= 1:
        raise ValueError(f"raced_share_max is {share}, and must be from 0 to 1")
    if always < 0:
        raise ValueError(f"raced_orders_always is {always}, and must not be negative")
    return share, always
