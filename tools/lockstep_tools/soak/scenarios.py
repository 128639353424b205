"""The scenarios of a soak: each some steps that can be done one by one, and checks between them.

A step is what the report counts. It gives findings; it raises only when it could not be done.
"""

import random
import statistics
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lockstep.model.modes import StreamMode
from lockstep.settings import Settings
from pizzeria.shop.generator import generate
from pizzeria.shop.loader import load
from pizzeria.shop.moving_pizzas import open_round
from pizzeria.shop.pizza_place import read_pizza_place
from pizzeria.shop.totals import Totals

from lockstep_tools.soak.checks import Checks
from lockstep_tools.soak.connector_restarts import run_restarts
from lockstep_tools.soak.drivers import DoublesWatch
from lockstep_tools.soak.findings import Finding, findings_of
from lockstep_tools.soak.guard import Guard
from lockstep_tools.soak.kills import BACK_SECONDS_MAX, Kill, Target, kill_and_await
from lockstep_tools.soak.replay import deliver_again
from lockstep_tools.soak.report import Progress
from lockstep_tools.soak.totals import check_totals
from lockstep_tools.soak.workload import Rates, Workload

ROUND_ORDERS = 40
KILLS_IN_A_GROUP = 4
"""Kills under one workload; after them all is checked."""
RESTARTS_IN_A_GROUP = 15
PAUSE_SECONDS = (2.0, 15.0)
"""Between two kills: some come while the last one's backlog is just written."""


@dataclass
class Bench:
    """What the scenarios work with."""

    settings: Settings
    modes: Sequence[StreamMode]
    checks: Checks
    guard: Guard | None
    watch: DoublesWatch

    def check(self, *, every_version: bool = True) -> list[Finding]:
        """Everything there is to check, when all streams have caught up."""
        doubled = findings_of("drivers", "drivers", "a mode has two", self.watch.taken())
        given_up = self.guard.taken() if self.guard else []
        return self.checks.run(every_version=every_version) + doubled + given_up


class Scenario(ABC):
    """name and seed identify it in the report; total is how many steps it has."""

    name: str
    seed: int = 1
    total: int = 1

    @abstractmethod
    def step(self, bench: Bench, number: int, progress: Progress) -> list[Finding]:
        """Do the step of this number, from 0; note figures; give the findings."""


@dataclass
class PizzaPlaceReplay(Scenario):
    """A data set replayed as fast as the database takes it, into a database without orders."""

    folder: Path
    name = "pizza_place"

    def step(self, bench: Bench, number: int, progress: Progress) -> list[Finding]:
        data = read_pizza_place(self.folder)
        report = load(bench.settings, data)
        findings = bench.check()
        expected = Totals(len(data.orders), data.pizza_count, data.revenue)
        progress.figures["totals"] = str(expected)
        progress.figures["orders_per_second"] = round(report.orders_per_second)
        for mode in bench.modes:
            findings += check_totals(bench.settings, mode, expected)
        return findings


@dataclass
class FullMix(Scenario):
    """An evening of the generator, undisturbed, then everything compared."""

    seed: int
    seconds: float = 600.0
    rate: float = 10.0
    name = "generator"

    def step(self, bench: Bench, number: int, progress: Progress) -> list[Finding]:
        report = generate(bench.settings, rate=self.rate, seconds=self.seconds, seed=self.seed)
        progress.figures["transactions"] = report.transactions.total()
        progress.figures["late_seconds_max"] = round(report.late_seconds_max, 1)
        return bench.check()


@dataclass
class Kills(Scenario):
    """One target killed again and again while the shop works; a step is a group of kills."""

    target: Target
    kills: int
    seed: int = 1
    rates: Rates = field(default_factory=Rates)
    named: str = "kills of {target}"

    def __post_init__(self) -> None:
        self.name = self.named.format(target=self.target)
        self.total = -(-self.kills // KILLS_IN_A_GROUP)

    def step(self, bench: Bench, number: int, progress: Progress) -> list[Finding]:
        rng = random.Random(f"{self.name} {self.seed} {number}")  # noqa: S311 - no secret
        count = min(KILLS_IN_A_GROUP, self.kills - number * KILLS_IN_A_GROUP)
        kills = kill_under_load(bench, [self.target] * count, rng, self.rates)
        back = progress.figures.setdefault("back_seconds", [])
        back += [round(one.back_seconds, 1) for one in kills]
        progress.figures["back_seconds_median"] = statistics.median(back)
        return _checked_after(bench, kills, progress)


@dataclass
class KillsInTurn(Scenario):
    """Each target once under one workload, in random order; then all is checked."""

    targets: Sequence[Target]
    seed: int = 1
    total: int = 1
    name = "kills in turn"

    def step(self, bench: Bench, number: int, progress: Progress) -> list[Finding]:
        rng = random.Random(f"{self.name} {self.seed} {number}")  # noqa: S311 - no secret
        targets = rng.sample(self.targets, len(self.targets))
        return _checked_after(bench, kill_under_load(bench, targets, rng, Rates()), progress)


def kill_under_load(
    bench: Bench, targets: Sequence[Target], rng: random.Random, rates: Rates
) -> list[Kill]:
    """One after the other, each when the streams have caught up with the last."""
    moved = open_round(bench.settings, ROUND_ORDERS, rng.randrange(2**31))
    bench.checks.watch(moved.order_ids, moved.pizzas)
    kills = []
    with Workload(bench.settings, moved, rng.randrange(2**20), rates) as workload:
        for target in targets:
            workload.go_on_for(rng.uniform(*PAUSE_SECONDS))
            kills.append(kill_and_await(bench.settings, target, bench.modes, rng))
            if bench.guard:
                bench.guard.ignore_restarts()
            bench.checks.follow()
    return kills


def _checked_after(bench: Bench, kills: Sequence[Kill], progress: Progress) -> list[Finding]:
    shown = progress.figures.setdefault("kills", [])
    shown += map(str, kills)
    text = f"not back at work after {BACK_SECONDS_MAX:.0f} s"
    late = [str(one) for one in kills if one.was_late]
    targets = ", ".join(dict.fromkeys(one.target for one in kills))
    return bench.check() + findings_of("kills", targets, text, late)


@dataclass
class Redelivery(Scenario):
    """Records that were delivered, delivered again while the shop works, and a driver killed."""

    seed: int = 1
    total: int = 4
    records: int = 20_000
    name = "redelivery"

    def step(self, bench: Bench, number: int, progress: Progress) -> list[Finding]:
        rng = random.Random(f"{self.name} {self.seed} {number}")  # noqa: S311 - no secret
        moved = open_round(bench.settings, ROUND_ORDERS, rng.randrange(2**31))
        bench.checks.watch(moved.order_ids, moved.pizzas)
        with Workload(bench.settings, moved, rng.randrange(2**20), Rates()) as workload:
            workload.go_on_for(rng.uniform(*PAUSE_SECONDS))
            copied = deliver_again(bench.settings, rng.randrange(1, self.records))
            if number % 2:
                kill_and_await(bench.settings, Target.DRIVER, bench.modes, rng)
            workload.go_on_for(PAUSE_SECONDS[0])
        progress.figures["records"] = progress.figures.get("records", 0) + copied
        return bench.check()


@dataclass
class ConnectorRestarts(Scenario):
    """Change capture restarted within open transactions: is each of them in the change topic?

    A step is a group of restarts, after which the streams are compared, too.
    """

    seed: int = 1
    total: int = 2
    name = "connector restarts"

    def step(self, bench: Bench, number: int, progress: Progress) -> list[Finding]:
        report = run_restarts(bench.settings, RESTARTS_IN_A_GROUP, self.seed * 100 + number)
        figures = progress.figures
        for name, count in (
            *report.restarts.items(),
            ("transactions", report.transactions),
            ("repeated_changes", report.repeated),
        ):
            figures[str(name)] = figures.get(str(name), 0) + count
        if bench.guard:
            bench.guard.ignore_restarts()
        return report.findings + bench.check()
