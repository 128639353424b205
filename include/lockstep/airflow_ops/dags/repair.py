"""Merges the rows of a window that changed after its run, when a person approves.

What changed and how it is merged are lockstep.airflow_ops.repair's.
"""

from datetime import timedelta

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import DAG, task

from lockstep.airflow_ops import repair
from lockstep.airflow_ops.assets import hourly_asset
from lockstep.airflow_ops.dags.of_pipeline import PipelineDags, default_args
from lockstep.airflow_ops.dags.parity import window_params
from lockstep.airflow_ops.quality_gate import CheckQualityOperator


def repair_dag(of: PipelineDags) -> DAG:
    """Run by hand, for a window."""
    pipeline = of.names.pipeline
    with DAG(
        dag_id=of.names.repair_dag_id,
        **of.looks(
            "parity",
            "repair",
            "The rows that changed after a window was run, merged into it when approved",
            "repair.md",
        ),
        schedule=None,
        catchup=False,
        is_paused_upon_creation=False,
        # Each run may wait a day for a person, and none for another run's.
        max_active_runs=64,
        params=window_params(),
        default_args=default_args(
            retries=3, retry_delay=timedelta(seconds=30), retry_exponential_backoff=2
        ),
    ) as dag:

        @task(execution_timeout=timedelta(minutes=10))
        def plan(params=None):
            """The rows that changed, and what running the window again would change besides."""
            return repair.plan(pipeline, params["window_start"], params["window_end"])

        # One window at a time, as with the hourly run.
        @task(max_active_tis_per_dag=1, execution_timeout=timedelta(minutes=10))
        def merge(planned, response):
            """Merges just the approved rows, or leaves the table as it was."""
            return repair.merge(pipeline, planned, response)

        planned = plan()
        approve = ApprovalOperator(
            task_id="approve",
            doc_md="Waits for a person, without a worker. Rejected or not answered: nothing "
            "happens.",
            subject="{{ ti.xcom_pull(task_ids='plan')['subject'] }}",
            body="{{ ti.xcom_pull(task_ids='plan')['body'] }}",
            defaults=ApprovalOperator.REJECT,
            response_timeout=repair.ANSWERED_WITHIN,
            retries=0,
        )
        check_quality = CheckQualityOperator(
            task_id="check_quality",
            doc_md="Checks the window and announces it, so that it is compared with the streams "
            "again.",
            pipeline=pipeline,
            window_start="{{ params.window_start }}",
            window_end="{{ params.window_end }}",
            max_active_tis_per_dag=1,
            execution_timeout=timedelta(minutes=10),
            outlets=[hourly_asset(of.names)],
        )
        planned >> approve
        merge(planned, approve.output) >> check_quality
    return dag
