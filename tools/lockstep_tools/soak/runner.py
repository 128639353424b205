"""Runs scenarios one after the other, step by step, and notes each step in the report.

Killed and run again, it goes on with the step that was under way. It uses the stack of the current
home, which it kills and loads: give it a home of its own.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lockstep.devstack import control
from lockstep.errors import LockstepError
from lockstep.file_lock import FileLock
from lockstep.host.files import make_private_folder
from lockstep.model.modes import StreamMode
from lockstep.settings import Settings

from lockstep_tools.errors import SoakError
from lockstep_tools.soak.airflow_kills import AirflowKills
from lockstep_tools.soak.checks import Checks
from lockstep_tools.soak.drivers import DoublesWatch
from lockstep_tools.soak.findings import Finding
from lockstep_tools.soak.guard import Guard
from lockstep_tools.soak.hour import SteadyHour
from lockstep_tools.soak.kills import DRIVER_TARGETS, Target
from lockstep_tools.soak.report import Progress, Report, report_path
from lockstep_tools.soak.scenarios import (
    Bench,
    ConnectorRestarts,
    FullMix,
    Kills,
    KillsInTurn,
    PizzaPlaceReplay,
    Redelivery,
    Scenario,
)
from lockstep_tools.soak.workload import Rates

SEEDS = (1, 2, 3)
KILLS, ROUNDS_IN_TURN, AIRFLOW_KILLS = 20, 4, 5
TARGETS = (*DRIVER_TARGETS, Target.KAFKA, Target.CONNECT, Target.POSTGRES)
EVERY_VERSION_RATES = Rates(moves=100.0, orders=0.0)


@dataclass(frozen=True)
class Plan:
    """What a soak does; smaller doses for tests."""

    scenarios: Sequence[Scenario]
    modes: Sequence[StreamMode] = tuple(StreamMode)


def whole_plan(dataset: Path, only: str = "") -> Plan:
    """Every scenario whose name contains `only`, in an order that needs no database emptied.

    Raises SoakError when there is none.
    """
    scenarios = _every_scenario(dataset)
    chosen = [scenario for scenario in scenarios if only in scenario.name]
    if not chosen:
        names = ", ".join(dict.fromkeys(scenario.name for scenario in scenarios))
        raise SoakError(f"no scenario has {only!r} in its name; there are: {names}")
    return Plan(chosen)


def _every_scenario(dataset: Path) -> list[Scenario]:
    return [
        PizzaPlaceReplay(dataset),
        *(FullMix(seed) for seed in SEEDS),
        KillsInTurn(TARGETS, total=ROUNDS_IN_TURN),
        *(Kills(target, KILLS) for target in TARGETS),
        Kills(Target.DRIVER, KILLS, 2, EVERY_VERSION_RATES, "every version"),
        *(ConnectorRestarts(seed) for seed in SEEDS),
        Redelivery(),
        SteadyHour(),
        *(AirflowKills(target, AIRFLOW_KILLS) for target in (Target.SCHEDULER, Target.TRIGGERER)),
    ]


def run(settings: Settings, plan: Plan, on_progress: Callable[[str], None]) -> Report:
    """Do what the report does not have yet; returns it. Raises SoakError, StreamError …"""
    with _lock(settings):
        report = Report(settings)
        todo = [
            (scenario, progress)
            for scenario in plan.scenarios
            for progress in [report.of(scenario.name, scenario.seed, scenario.total)]
            if progress.done < progress.total
        ]
        if todo:
            settings = control.up(settings, ["connect"])
            with bench_at_work(settings, plan.modes) as bench:
                for scenario, progress in todo:
                    run_scenario(bench, scenario, progress, report, on_progress)
    return report


def run_scenario(
    bench: Bench,
    scenario: Scenario,
    progress: Progress,
    report: Report,
    on_progress: Callable[[str], None],
) -> None:
    """Step by step. A step that cannot be done is a finding, too, and the next one is tried."""
    while progress.done < progress.total:
        started = time.monotonic()
        try:
            findings = scenario.step(bench, progress.done, progress)
        except LockstepError as error:
            findings = [Finding(type(error).__name__, scenario.name, str(error))]
        report.note(progress, time.monotonic() - started, findings)
        what = f"{scenario.name} (seed {scenario.seed}) {progress.done}/{progress.total}"
        on_progress(f"{what}: {len(findings)} findings")
        for finding in findings:
            on_progress(f"  {finding}")


@contextmanager
def bench_at_work(settings: Settings, modes: Sequence[StreamMode]) -> Iterator[Bench]:
    """The streams at work, guarded and watched, until the end of the block."""
    guard, watch = Guard(settings, modes), DoublesWatch(settings)
    guard.begin()
    watch.start()
    try:
        yield Bench(settings, modes, Checks.of(settings, modes), guard, watch)
    finally:
        guard.stop()
        watch.stop()


def _lock(settings: Settings) -> FileLock:
    """One soak at a time in a home."""
    folder = make_private_folder(report_path(settings).parent)
    return FileLock.acquire(
        folder / "lock",
        lambda pid: SoakError(f"a soak (pid {pid}) is at work in {settings.home}: await its end"),
    )
