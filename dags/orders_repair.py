"""Merges the orders of a window that changed after its hourly run, when a person approves.

Wiring only. What changed and how it is merged are lockstep.airflow_ops.repair's.
"""

from datetime import timedelta
from pathlib import Path

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import DAG, Param, task
from lockstep.airflow_ops import repair
from lockstep.airflow_ops.assets import hourly_asset
from lockstep.airflow_ops.quality_gate import CheckQualityOperator
from lockstep.settings import Settings

NAMES = Settings.load().names

with DAG(
    dag_id=NAMES.repair_dag_id,
    dag_display_name="Orders repair",
    description="The orders that changed after an hour was run, merged into it when approved",
    doc_md=str(Path(__file__).with_suffix(".md")),
    schedule=None,
    catchup=False,
    is_paused_upon_creation=False,
    # Each run may wait a day for a person, and none for another run's.
    max_active_runs=64,
    params={
        name: Param(type="string", minLength=1, title=title, description=description)
        for name, title, description in (
            ("window_start", "Window start", "As the hourly run had it, e.g. 2015-01-01T11:00Z."),
            ("window_end", "Window end", "Not part of the window, e.g. 2015-01-01T12:00Z."),
        )
    },
    tags=["lockstep", NAMES.pipeline, "parity"],
    default_args={
        "owner": "lockstep",
        "retries": 3,
        "retry_delay": timedelta(seconds=30),
        "retry_exponential_backoff": 2,
    },
):

    @task(execution_timeout=timedelta(minutes=10))
    def plan(params=None):
        """The orders that changed, and what running the hour again would change besides."""
        return repair.plan(params["window_start"], params["window_end"])

    # One window at a time, as with the hourly run.
    @task(max_active_tis_per_dag=1, execution_timeout=timedelta(minutes=10))
    def merge(planned, response):
        """Merges just the approved orders, or leaves the table as it was."""
        return repair.merge(planned, response)

    planned = plan()
    approve = ApprovalOperator(
        task_id="approve",
        doc_md="Waits for a person, without a worker. Rejected or not answered: nothing happens.",
        subject="{{ ti.xcom_pull(task_ids='plan')['subject'] }}",
        body="{{ ti.xcom_pull(task_ids='plan')['body'] }}",
        defaults=ApprovalOperator.REJECT,
        response_timeout=repair.ANSWERED_WITHIN,
        retries=0,
    )
    check_quality = CheckQualityOperator(
        task_id="check_quality",
        doc_md="Checks the window and announces it, so that it is compared with the streams again.",
        window_start="{{ params.window_start }}",
        window_end="{{ params.window_end }}",
        max_active_tis_per_dag=1,
        execution_timeout=timedelta(minutes=10),
        outlets=[hourly_asset(NAMES)],
    )
    planned >> approve
    merge(planned, approve.output) >> check_quality
