"""Lets another feed have the published table, after a person has approved it.

What must have been shown, and the switch itself, are lockstep.publish's.
"""

from datetime import timedelta

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import DAG, Param, task

from lockstep.airflow_ops import cutover
from lockstep.airflow_ops.dags.of_pipeline import PipelineDags, default_args
from lockstep.airflow_ops.notify import FailureNotifier
from lockstep.model.modes import BATCH


def cutover_dag(of: PipelineDags) -> DAG:
    """Run by hand, for a feed."""
    pipeline = of.names.pipeline
    with DAG(
        dag_id=of.names.cutover_dag_id,
        **of.looks(
            "publish",
            "cutover",
            "Switches what feeds the table that consumers read, if a person approves",
            "cutover.md",
        ),
        schedule=None,
        catchup=False,
        max_active_runs=1,
        is_paused_upon_creation=False,
        params={
            "feed": Param(
                BATCH,
                type="string",
                enum=[BATCH, *map(str, of.names.modes)],
                title="Feed",
                description="The hourly batch, or the mode of a stream.",
            ),
            "windows": Param(
                of.settings.cutover_windows,
                type="integer",
                minimum=1,
                title="Verified windows",
                description="So many windows, up to now, in which a stream must agree with the "
                "batch without a gap.",
            ),
        },
        default_args=default_args(),
    ) as dag:

        @task
        def check(params=None):
            """Refuses, with the reason, what is not proved; else says what the approval is of."""
            return cutover.question(pipeline, params["feed"], params["windows"])

        approve = ApprovalOperator(
            task_id="approve",
            subject=f"Let {{{{ params.feed }}}} feed the rows of {pipeline} that consumers read?",
            body="{{ ti.xcom_pull(task_ids='check') }}",
            response_timeout=timedelta(hours=12),
            doc_md="Waits for a person. *Reject*, or no answer within 12 hours: nothing happens.",
        )

        # The hour may have turned, and its window is just being compared.
        @task(
            retries=3,
            retry_delay=timedelta(minutes=3),
            on_failure_callback=FailureNotifier(f"An approved cutover of {pipeline} was not made"),
        )
        def switch(approval, params=None):
            """One commit, on the same conditions; the ledger keeps who approved it."""
            return cutover.switch_feed(pipeline, params["feed"], params["windows"], approval)

        check() >> approve
        switch(approve.output)
    return dag
