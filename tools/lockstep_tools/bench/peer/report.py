"""What the rounds come to: medians of each side, and Lockstep's as a multiple of each other's.

A ratio below 1 means that Lockstep takes less. Nothing here runs or prints.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from lockstep_tools.bench.peer.compare import Drain, Latency
from lockstep_tools.bench.peer.sides import OURS

_Round = TypeVar("_Round", Latency, Drain)
Figures = dict[str, float]
"""By name, in the table's order."""
MS = 1000


def latency_figures(rounds: Sequence[Latency]) -> Figures:
    """Medians over a side's rounds, latencies in milliseconds."""
    return {
        "p50": MS * _median(rounds, lambda one: one.seconds.p50),
        "p95": MS * _median(rounds, lambda one: one.seconds.p95),
        "p99": MS * _median(rounds, lambda one: one.seconds.p99),
        "busy cores": _median(rounds, lambda one: one.busy_cores),
        "other cores": _median(rounds, lambda one: one.other_cores),
        "peak MiB": _median(rounds, lambda one: one.peak_mib),
    }


def drain_figures(rounds: Sequence[Drain]) -> Figures:
    """Medians over a side's rounds, in seconds."""
    return {
        "start s": _median(rounds, lambda one: one.start_seconds),
        "drain s": _median(rounds, lambda one: one.seconds),
        "together s": _median(rounds, lambda one: one.start_seconds + one.seconds),
    }


def ratios(figures: Mapping[str, Figures]) -> dict[str, Figures]:
    """By each side but Lockstep's: Lockstep's figures over its own."""
    ours = figures[OURS]
    return {
        side: {name: _ratio(ours[name], theirs[name]) for name in theirs}
        for side, theirs in figures.items()
        if side != OURS
    }


def _ratio(ours: float, theirs: float) -> float:
    return ours / theirs if theirs else math.nan


def _median(rounds: Sequence[_Round], figure: Callable[[_Round], float]) -> float:
    return statistics.median(map(figure, rounds))
