"""How the hourly job is submitted for a run's window. The work itself is jobs/'s."""

from collections.abc import Callable
from typing import Any

from airflow.sdk.exceptions import AirflowFailException

from lockstep.airflow_ops.spark_jobs import job_arguments
from lockstep.errors import WindowError
from lockstep.model.window import Window
from lockstep.model.windows import RunTimes, Windows
from lockstep.settings import Settings


def submit_arguments(settings: Settings, *, has_windows: bool) -> dict[str, Any]:
    """Keyword arguments of the operator that makes a run's window, or the whole result.

    They need the DAG's macros `window_of` and `spark_jars`, and its parameter `read`.
    """
    window = [
        *("--start", "{{ window_of(dag_run).start.isoformat() }}"),
        *("--end", "{{ window_of(dag_run).end.isoformat() }}"),
    ]
    return {
        **job_arguments(settings, "run_window", settings.names.hourly_dag_id),
        "application_args": [
            *(window if has_windows else []),
            *("--read", "{{ params.read }}"),
        ],
    }


def window_of(windows: Windows | None) -> Callable[[RunTimes], Window]:
    """The window of a run, as a macro; one that cannot be used fails the task without retries."""

    def of_run(run: RunTimes) -> Window:
        try:
            return (windows or Windows()).of_run(run)
        except WindowError as error:
            raise AirflowFailException(str(error)) from None

    return of_run
