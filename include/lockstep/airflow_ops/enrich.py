"""How the hourly job is submitted for a run's window. The work itself is jobs/'s."""

from typing import Any

from airflow.sdk.exceptions import AirflowFailException

from lockstep.airflow_ops import windows
from lockstep.airflow_ops.spark_jobs import job_arguments
from lockstep.errors import WindowError
from lockstep.model.window import Window
from lockstep.settings import Settings


def submit_arguments(settings: Settings) -> dict[str, Any]:
    """Keyword arguments of the operator that enriches a run's window.

    They need the DAG's macros `window_of` and `spark_jars`, and its parameter `read`.
    """
    return {
        **job_arguments(settings, "enrich_orders_batch", settings.names.hourly_dag_id),
        "application_args": [
            "--start",
            "{{ window_of(dag_run).start.isoformat() }}",
            "--end",
            "{{ window_of(dag_run).end.isoformat() }}",
            "--read",
            "{{ params.read }}",
        ],
    }


def window_of(run: windows.RunTimes) -> Window:
    """The window of a run, as a macro; one that cannot be used fails the task without retries."""
    try:
        return windows.of_run(run)
    except WindowError as error:
        raise AirflowFailException(str(error)) from None
