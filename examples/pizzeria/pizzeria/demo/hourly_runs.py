"""Has the hourly DAG run for the demonstration's hours, through Airflow, and waits for it."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from lockstep.airflow_admin.client import FINAL_STATES, AirflowClient, DagRun
from lockstep.errors import LakehouseError, ServiceError, WindowNotWrittenError
from lockstep.model.window import Window
from lockstep.settings import Settings
from lockstep.sources.delta import open_table
from lockstep.sources.hourly_runs import written_by

from pizzeria.names import HOURLY_DAG_ID, ORDERS_ENRICHED_BATCH

POLL_SECONDS = 1.0
DAG_SECONDS_MAX = 90
"""How long Airflow may take to read the DAG's file after it is up."""
RUNS_SECONDS_MAX = 900
"""How long the runs may take: two of a minute and a half are slow; under load, minutes each."""

OnProgress = Callable[[str], None]


@dataclass(frozen=True)
class FinishedRun:
    """A successful run of one window, and how long its tasks took."""

    run_type: str
    seconds: float


def await_dag(airflow: AirflowClient, dag_id: str) -> None:
    """Wait until Airflow has read the DAG's file. Raises ServiceError."""
    deadline = time.monotonic() + DAG_SECONDS_MAX
    while not airflow.knows(dag_id):
        if time.monotonic() > deadline:
            raise ServiceError(
                f"Airflow has not read the DAG {dag_id} after {DAG_SECONDS_MAX} s; "
                "see `lockstep logs airflow-dag-processor`"
            )
        time.sleep(POLL_SECONDS)


def run_hours(
    airflow: AirflowClient,
    windows: list[Window],
    since: datetime,
    on_progress: OnProgress,
    at_work: Callable[[], None],
) -> dict[datetime, FinishedRun]:
    """Have a run of the hourly DAG for each window, and wait until all have succeeded.

    The scheduler runs the latest window by itself when Airflow has just come up; what it has not
    run since then is backfilled. since: runs that started earlier do not count, for they have not
    seen the orders. at_work is called between two looks.
    Returns the run of each window by the window's start. Raises ServiceError when a run fails or
    the time is up.
    """
    deadline = time.monotonic() + RUNS_SECONDS_MAX
    finished: dict[datetime, FinishedRun] = {}
    is_asked = False
    while len(finished) < len(windows):
        runs = airflow.runs(HOURLY_DAG_ID, windows[0], windows[-1])
        at_work()
        for run in runs:
            if run.window_start not in finished and _counts(run, since):
                _require_success(run)
                seconds = airflow.task_seconds(HOURLY_DAG_ID, run)
                finished[run.window_start] = FinishedRun(run.run_type, seconds)
                on_progress(
                    f"{run.window_start:%H:%M} {run.run_type} run done, tasks took {seconds:.0f} s"
                )
        # A backfill passes over unfinished runs, so the scheduler's own is awaited first.
        if not is_asked and all(run.state in FINAL_STATES for run in runs):
            if wanted := [window for window in windows if window.start not in finished]:
                airflow.backfill(HOURLY_DAG_ID, wanted[0], wanted[-1])
            is_asked = True
        if time.monotonic() > deadline:
            raise ServiceError(
                f"{len(finished)} of {len(windows)} hourly runs are done after "
                f"{RUNS_SECONDS_MAX} s; look at the DAG {HOURLY_DAG_ID} in Airflow"
            )
        time.sleep(POLL_SECONDS)
    return finished


def has_read(settings: Settings, window: Window, since: datetime) -> bool:
    """Whether an hourly run has read the window since then: its cut is in the table's commit."""
    try:
        table = open_table(settings.table_uri(ORDERS_ENRICHED_BATCH))
        return written_by(table, window).run.cut.taken_at >= since
    except (LakehouseError, WindowNotWrittenError):
        return False


def _counts(run: DagRun, since: datetime) -> bool:
    return run.state in FINAL_STATES and run.started is not None and run.started >= since


def _require_success(run: DagRun) -> None:
    if run.state != "success":
        raise ServiceError(
            f"the {run.run_type} run of {run.window_start:%Y-%m-%d %H:%M} ended as {run.state}; "
            f"its task logs in Airflow say why (DAG {HOURLY_DAG_ID}, run {run.run_id})"
        )
