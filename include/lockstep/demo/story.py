"""The demonstration's steps: stack, orders, a backfill of the hourly DAG, what it delivered.

Whatever is shown was measured on the runs just made. Printing is the caller's, through `told`.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.airflow_ops import windows as due_windows
from lockstep.contracts import HOURLY_DAG_ID, Window
from lockstep.demo.airflow_client import FINAL_STATES, AirflowClient, DagRun, signed_in
from lockstep.demo.delay_chart import save_delay_chart
from lockstep.demo.hours import HourTotals, delays, totals
from lockstep.errors import ServiceError
from lockstep.settings import Settings
from lockstep.shop.backdate import backdate_orders

if TYPE_CHECKING:
    import pandas as pd

HOURS = 4
ORDERS_PER_HOUR = 500
SEED = 1
POLL_SECONDS = 1.0
DAG_SECONDS_MAX = 90
"""How long Airflow may take to read the DAG's file after it is up."""
RUNS_SECONDS_MAX = 480
"""How long the backfill may take: four runs of a minute and a half are slow already."""

Told = Callable[[str], None]


@dataclass(frozen=True)
class FinishedRun:
    """A successful run of one window, and how long its tasks took."""

    run_type: str
    seconds: float


@dataclass(frozen=True)
class Delivered:
    """What the backfill delivered: a line for each hour, its run, and every order's delay."""

    hours: list[HourTotals]
    runs: dict[datetime, FinishedRun]
    delays: "pd.DataFrame"
    chart: Path


def past_windows(as_of: datetime, hours: int = HOURS) -> list[Window]:
    """The last `hours` windows whose hourly run is due by `as_of`, oldest first."""
    last = due_windows.last_due(as_of)
    return [
        due_windows.hour_from(last.start - n * due_windows.HOUR) for n in reversed(range(hours))
    ]


def place_orders(settings: Settings, windows: list[Window]) -> int:
    """Put orders into the windows, each with outbox row and message; returns their number.

    To be called before Airflow is up where that is possible: its scheduler runs the latest window
    at once.
    """
    return backdate_orders(
        settings,
        hours=len(windows),
        per_hour=ORDERS_PER_HOUR,
        seed=SEED,
        until=windows[-1].end,
    )


def backfill(
    settings: Settings, windows: list[Window], since: datetime, told: Told
) -> dict[datetime, FinishedRun]:
    """Run the hourly DAG for each window through Airflow and wait until all have succeeded.

    since: runs that started earlier do not count, for they have not seen the orders.
    Returns the run of each window by the window's start. Raises ServiceError when a run fails or
    the time is up.
    """
    with signed_in(settings) as airflow:
        _await_dag(airflow)
        _await_idle(airflow, windows)
        airflow.backfill(HOURLY_DAG_ID, windows[0], windows[-1])
        return _await_runs(airflow, windows, since, told)


def delivered(
    settings: Settings, windows: list[Window], runs: dict[datetime, FinishedRun]
) -> Delivered:
    """Read the hourly table, work the delays out, and draw them below HOME/demo."""
    seconds = {start: run.seconds for start, run in runs.items()}
    order_delays = delays(settings, windows, seconds)
    chart = settings.home / "demo" / "delay.png"
    save_delay_chart(order_delays, chart)
    return Delivered(totals(settings, windows), runs, order_delays, chart)


def _await_dag(airflow: AirflowClient) -> None:
    deadline = time.monotonic() + DAG_SECONDS_MAX
    while not airflow.knows(HOURLY_DAG_ID):
        if time.monotonic() > deadline:
            raise ServiceError(
                f"Airflow has not read the DAG {HOURLY_DAG_ID} after {DAG_SECONDS_MAX} s; "
                "see `lockstep logs airflow-dag-processor`"
            )
        time.sleep(POLL_SECONDS)


def _await_idle(airflow: AirflowClient, windows: list[Window]) -> None:
    """Wait for the scheduler's own run of a window: a backfill passes over unfinished runs."""
    deadline = time.monotonic() + RUNS_SECONDS_MAX
    while any(
        run.state not in FINAL_STATES
        for run in airflow.runs(HOURLY_DAG_ID, windows[0], windows[-1])
    ):
        if time.monotonic() > deadline:
            raise ServiceError(
                f"a run of the hours asked for is unfinished after {RUNS_SECONDS_MAX} s; look at "
                f"the DAG {HOURLY_DAG_ID} in Airflow"
            )
        time.sleep(POLL_SECONDS)


def _await_runs(
    airflow: AirflowClient, windows: list[Window], since: datetime, told: Told
) -> dict[datetime, FinishedRun]:
    deadline = time.monotonic() + RUNS_SECONDS_MAX
    finished: dict[datetime, FinishedRun] = {}
    while len(finished) < len(windows):
        for run in airflow.runs(HOURLY_DAG_ID, windows[0], windows[-1]):
            if run.window_start not in finished and _counts(run, since):
                _require_success(run)
                seconds = airflow.task_seconds(HOURLY_DAG_ID, run)
                finished[run.window_start] = FinishedRun(run.run_type, seconds)
                told(
                    f"{run.window_start:%H:%M} {run.run_type} run done, tasks took {seconds:.0f} s"
                )
        if time.monotonic() > deadline:
            raise ServiceError(
                f"{len(finished)} of {len(windows)} hourly runs are done after "
                f"{RUNS_SECONDS_MAX} s; look at the DAG {HOURLY_DAG_ID} in Airflow"
            )
        time.sleep(POLL_SECONDS)
    return finished


def _counts(run: DagRun, since: datetime) -> bool:
    return run.state in FINAL_STATES and run.started is not None and run.started >= since


def _require_success(run: DagRun) -> None:
    if run.state != "success":
        raise ServiceError(
            f"the {run.run_type} run of {run.window_start:%Y-%m-%d %H:%M} ended as {run.state}; "
            f"its task logs in Airflow say why (DAG {HOURLY_DAG_ID}, run {run.run_id})"
        )
