"""How the hourly job is submitted, and how its failure reads. The work itself is jobs/'s.

Nothing here may hold a password: Airflow logs the whole command and stores rendered arguments.
The job reads its passwords itself, from the environment or the home's secrets.
"""

from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from lockstep import contracts
from lockstep.airflow_ops import windows
from lockstep.contracts import Window
from lockstep.errors import WindowError
from lockstep.settings import PROJECT_DIR, Settings
from lockstep.spark import spark_conf

APPLICATION = PROJECT_DIR / "jobs" / "enrich_orders_batch.py"
ERROR_PREFIX = "error: "  # what every job of ours prints before its one-line error


class EnrichOrdersOperator(SparkSubmitOperator):
    """The provider's operator, whose failure reads as the job's own one-line error.

    Without it the error stands between a command of 30 lines and Spark's shutdown messages.
    """

    def execute(self, context: dict[str, Any]) -> None:
        """Raises AirflowException with the job's error, or the provider's when the job has none."""
        try:
            super().execute(context)
        except AirflowException as error:
            reason = job_error(str(error))
            if reason is None:
                raise
            raise AirflowException(reason) from None


def submit_arguments(settings: Settings) -> dict[str, Any]:
    """Keyword arguments of the operator that enriches a run's window.

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


def job_error(output: str) -> str | None:
    """The last one-line error that a job of ours printed, without its prefix; None if none."""
    errors = [line for line in output.splitlines() if line.startswith(ERROR_PREFIX)]
    return errors[-1].removeprefix(ERROR_PREFIX) if errors else None
