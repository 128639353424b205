"""Kills of Airflow's own components while its DAGs keep the streams running.

The streams' driver is no part of Airflow: it must be the same process before and after. And what
comes back must keep the streams running as what was killed did: the last step kills the driver,
too, and Airflow alone replaces it, by one driver for all the streams that died with it.
"""

import random
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

from lockstep.airflow_admin.client import AirflowClient, signed_in
from lockstep.devstack import control
from lockstep.model.modes import StreamMode
from lockstep.settings import Settings
from pizzeria.names import stream_dag_id
from pizzeria.shop.moving_pizzas import open_round

from lockstep_tools.errors import SoakError
from lockstep_tools.soak.drivers import drivers
from lockstep_tools.soak.findings import Finding, findings_of
from lockstep_tools.soak.kills import BACK_SECONDS_MAX, Target, kill_and_await
from lockstep_tools.soak.report import Progress
from lockstep_tools.soak.scenarios import PAUSE_SECONDS, ROUND_ORDERS, Bench, Scenario
from lockstep_tools.soak.workload import Rates, Workload

WATCHED_SECONDS_MAX = 180.0
"""Until Airflow has read the DAGs and each task watches its stream."""


@dataclass
class AirflowKills(Scenario):
    """A step is one kill of the target; the last one kills the driver after its return."""

    target: Target
    total: int
    seed: int = 1

    def __post_init__(self) -> None:
        self.name = f"kills of {self.target}"

    def step(self, bench: Bench, number: int, progress: Progress) -> list[Finding]:
        rng = random.Random(f"{self.name} {self.seed} {number}")  # noqa: S311 - no secret
        control.up(bench.settings)
        with _supervised_by_airflow(bench) as airflow:
            moved = open_round(bench.settings, ROUND_ORDERS, rng.randrange(2**31))
            bench.checks.watch(moved.order_ids, moved.pizzas)
            with Workload(bench.settings, moved, rng.randrange(2**20), Rates()) as workload:
                workload.go_on_for(rng.uniform(*PAUSE_SECONDS))
                before = _pids(bench.settings)
                gone = _triggerers(airflow, bench) if self.target is Target.TRIGGERER else set()
                killed = kill_and_await(bench.settings, self.target, bench.modes, rng)
                _await_watched(airflow, bench, gone)
                after = _pids(bench.settings)
            kills = [str(killed)]
            if number == self.total - 1:
                kills.append(str(kill_and_await(bench.settings, Target.DRIVER, bench.modes, rng)))
        progress.figures.setdefault("kills", []).extend(kills)
        moved_on = [] if before == after else [f"drivers {before} before the kill, {after} after"]
        late = [str(killed)] if killed.was_late else []
        return (
            bench.check()
            + findings_of("drivers", self.target, "touched by Airflow's end", moved_on)
            + findings_of("kills", self.target, f"not back after {BACK_SECONDS_MAX:.0f} s", late)
        )


@contextmanager
def _supervised_by_airflow(bench: Bench) -> Iterator[AirflowClient]:
    """Each stream's DAG watches its stream, and nothing else does, until the block's end."""
    only_airflow = bench.guard.away() if bench.guard else nullcontext()
    with only_airflow, signed_in(bench.settings) as airflow:
        deadline = time.monotonic() + WATCHED_SECONDS_MAX
        for mode in bench.modes:
            _await(lambda m=mode: airflow.knows(stream_dag_id(m)), mode, "read its DAG", deadline)
            if not airflow.unfinished(stream_dag_id(mode)):
                airflow.trigger(stream_dag_id(mode))
        _await_watched(airflow, bench)
        yield airflow


def _triggerers(airflow: AirflowClient, bench: Bench) -> set[int | None]:
    return set().union(*(airflow.triggerers(stream_dag_id(mode)) for mode in bench.modes))


def _await_watched(airflow: AirflowClient, bench: Bench, gone: Collection[int | None] = ()) -> None:
    """Until each mode's trigger is run by a triggerer, none of those that are gone.

    That the task is deferred says nothing: so it is while no triggerer runs.
    """
    deadline = time.monotonic() + WATCHED_SECONDS_MAX
    for mode in bench.modes:
        _await(lambda m=mode: _is_watched(airflow, m, gone), mode, "watch it", deadline)


def _is_watched(airflow: AirflowClient, mode: StreamMode, gone: Collection[int | None]) -> bool:
    triggerers = airflow.triggerers(stream_dag_id(mode))
    return bool(triggerers) and triggerers.isdisjoint({None, *gone})


def _await(is_so: Callable[[], bool], mode: StreamMode, what: str, deadline: float) -> None:
    while not is_so():
        if time.monotonic() > deadline:
            raise SoakError(f"Airflow does not {what}, of stream {mode}; see its logs")
        time.sleep(1.0)


def _pids(settings: Settings) -> Sequence[int]:
    return sorted(process.pid for process, _ in drivers(settings))
