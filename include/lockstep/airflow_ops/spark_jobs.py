"""How jobs are submitted to Spark, and how their failures read.

Nothing here may hold a password: Airflow logs the whole command and stores rendered arguments. A
job reads its passwords itself, from the environment or the home's secrets.
"""

from contextlib import suppress
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import AirflowException

from lockstep.airflow_names import SPARK_CONNECTION
from lockstep.airflow_ops.source_passwords import task_settings
from lockstep.errors import LockstepError
from lockstep.settings import Settings
from lockstep.spark import spark_conf

_SECRETS_OF_AIRFLOW = (
    "AIRFLOW__CORE__FERNET_KEY",
    "AIRFLOW__API_AUTH__JWT_SECRET",
    "AIRFLOW__API__SECRET_KEY",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC",
)
"""A task inherits them; a job, with the JVM and the Python workers that it starts, needs none."""
ERROR_PREFIX = "error: "  # what every job of ours prints before its one-line error


class SparkJobOperator(SparkSubmitOperator):
    """The provider's operator, for a job over one pipeline's rows.

    Its failure reads as the job's own one-line error, which otherwise stands between a command of
    30 lines and Spark's shutdown messages. Spark is set for as many rows as the pipeline's last
    hourly run wrote.
    """

    def __init__(self, *, pipeline: str = "", **arguments: Any) -> None:
        super().__init__(**arguments)
        self.pipeline = pipeline

    def execute(self, context: dict[str, Any]) -> None:
        """Raises AirflowException with the job's error, or the provider's when the job has none."""
        try:
            settings = task_settings(self.pipeline)
        except LockstepError as error:
            raise AirflowException(str(error)) from None
        self.conf = {**self.conf, **spark_conf(settings, _rows_expected(settings))}
        try:
            super().execute(context)
        except AirflowException as error:
            reason = job_error(str(error))
            if reason is None:
                raise
            raise AirflowException(reason) from None


def job_arguments(settings: Settings, job: str, name: str) -> dict[str, Any]:
    """What the operator that submits jobs/<job>.py for the settings' pipeline needs, besides the
    macro `spark_jars`."""
    return {
        "pipeline": settings.names.pipeline,
        "conn_id": SPARK_CONNECTION,
        "application": str(settings.project / "jobs" / f"{job}.py"),
        "name": name,
        "conf": spark_conf(settings),
        "jars": "{{ spark_jars() }}",
        "env_vars": {
            **dict.fromkeys(_SECRETS_OF_AIRFLOW, ""),  # the provider can replace, not remove
            "LOCKSTEP_PIPELINE": settings.names.pipeline,
        },
    }


def _rows_expected(settings: Settings) -> int | None:
    from lockstep.sources.hourly_runs import rows_of_newest_run

    with suppress(LockstepError):  # the job itself says what is wrong with its tables
        return rows_of_newest_run(settings)
    return None


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
