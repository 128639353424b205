"""How the hourly job is submitted, and how its failure reads. The work itself is jobs/'s.

Nothing here may hold a password: Airflow logs the whole command and stores rendered arguments.
The job reads its passwords itself, from the environment or the home's secrets.
"""

import logging
from typing import Any

from airflow.sdk.exceptions import AirflowFailException

from lockstep import contracts
from lockstep.airflow_ops import windows
from lockstep.contracts import Window
from lockstep.errors import WindowError
from lockstep.settings import PROJECT_DIR, Settings
from lockstep.spark import spark_conf

APPLICATION = PROJECT_DIR / "jobs" / "enrich_orders_batch.py"
ERROR_PREFIX = "error: "  # what every job of ours prints before its one-line error

log = logging.getLogger("airflow.task")


def submit_arguments(settings: Settings) -> dict[str, Any]:
    """Keyword arguments of the SparkSubmitOperator that enriches a run's window.

    They need the DAG's macros `window_of` and `spark_jars`, and its parameter `read`.
    """
    return {
        "conn_id": contracts.SPARK_CONNECTION,
        "application": str(APPLICATION),
        "name": contracts.HOURLY_DAG_ID,
        "conf": spark_conf(settings),
        "jars": "{{ spark_jars() }}",
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


def spark_jars() -> str:
    """The jars for Spark, comma-separated, as a macro: looked up when the task runs.

    Raises JarsIncompleteError then, and not when the DAG is parsed.
    """
    from lockstep import jars

    return ",".join(str(jar) for jar in jars.classpath(Settings.load(), "spark"))


def say_why(context: dict[str, Any]) -> None:
    """End a failed attempt's log with the job's own one-line error, if it printed one.

    The operator's exception holds it, between the whole command and Spark's last lines.
    """
    lines = str(context.get("exception") or "").splitlines()
    errors = [line for line in lines if line.startswith(ERROR_PREFIX)]
    if errors:
        log.error("The job says: %s", errors[-1].removeprefix(ERROR_PREFIX))
