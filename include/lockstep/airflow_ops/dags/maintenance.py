"""Keeps bounded, once a day, what grows while the platform runs.

What is maintained, and under whose lock, is lockstep.maintain's.
"""

from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG, task

from lockstep.airflow_names import MAINTENANCE_DAG_ID
from lockstep.airflow_ops import maintenance
from lockstep.airflow_ops.dags.of_pipeline import default_args


def maintenance_dag() -> DAG:
    """Runs once a day, for all pipelines."""
    with DAG(
        dag_id=MAINTENANCE_DAG_ID,
        dag_display_name="Maintenance",
        description="Removes what no kept version of a table needs, and old logs and runs of "
        "Airflow",
        doc_md=Path(__file__).with_suffix(".md").read_text(encoding="utf-8"),
        schedule="35 3 * * *",  # half an hour after an hourly run's hh:05, which is over by then
        catchup=False,
        max_active_runs=1,
        is_paused_upon_creation=False,
        tags=["lockstep", "maintenance"],
        default_args=default_args(),
    ) as dag:

        @task(retries=1, retry_delay=timedelta(minutes=5), execution_timeout=timedelta(minutes=30))
        def maintain():
            """Maintains everything; fails with the list of what could not be done."""
            return maintenance.maintain()

        maintain()
    return dag
