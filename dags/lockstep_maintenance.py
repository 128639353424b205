"""Keeps bounded, once a day, what grows while the platform runs.

Wiring only. What is maintained, and under whose lock, is lockstep.maintain's.
"""

from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG, task
from lockstep.airflow_names import MAINTENANCE_DAG_ID
from lockstep.airflow_ops import maintenance

with DAG(
    dag_id=MAINTENANCE_DAG_ID,
    dag_display_name="Maintenance",
    description="Removes what no kept version of a table needs, and old logs and runs of Airflow",
    doc_md=str(Path(__file__).with_suffix(".md")),
    schedule="35 3 * * *",  # half an hour after an hourly run's hh:05, which is over by then
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=False,
    tags=["lockstep", "maintenance"],
    default_args={"owner": "lockstep"},
):

    @task(retries=1, retry_delay=timedelta(minutes=5), execution_timeout=timedelta(minutes=30))
    def maintain():
        """Maintains everything; fails with the list of what could not be done."""
        return maintenance.maintain()

    maintain()
