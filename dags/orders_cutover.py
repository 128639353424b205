"""Lets another feed have the published table, after a person has approved it.

Wiring only. What must have been shown, and the switch itself, are lockstep.publish's.
"""

from datetime import timedelta
from pathlib import Path

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import DAG, Param, task
from lockstep.airflow_ops import cutover
from lockstep.airflow_ops.notify import FailureNotifier
from lockstep.model.modes import BATCH, FEEDS
from lockstep.settings import Settings

NAMES = Settings.load().names

with DAG(
    dag_id=NAMES.cutover_dag_id,
    dag_display_name="Orders, cutover",
    description="Switches what feeds the table that consumers read, if a person approves",
    doc_md=str(Path(__file__).with_suffix(".md")),
    schedule=None,
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=False,
    params={
        "feed": Param(
            BATCH,
            type="string",
            enum=list(FEEDS),
            title="Feed",
            description="The hourly batch, or the mode of a stream.",
        ),
        "hours": Param(
            cutover.hours_asked_for(),
            type="integer",
            minimum=1,
            title="Verified hours",
            description="A stream must agree with the batch for so long, up to now, without a gap.",
        ),
    },
    tags=["lockstep", NAMES.pipeline, "publish"],
    default_args={"owner": "lockstep"},
):

    @task
    def check(params=None):
        """Refuses, with the reason, what is not proved; else words it for the approval."""
        return cutover.question(params["feed"], params["hours"])

    approve = ApprovalOperator(
        task_id="approve",
        subject="Let {{ params.feed }} feed the orders that consumers read?",
        body="{{ ti.xcom_pull(task_ids='check') }}",
        response_timeout=timedelta(hours=12),
        doc_md="Waits for a person. *Reject*, or no answer within 12 hours: nothing happens.",
    )

    # The hour may have turned, and its window is just being compared.
    @task(
        retries=3,
        retry_delay=timedelta(minutes=3),
        on_failure_callback=FailureNotifier("An approved cutover was not made"),
    )
    def switch(approval, params=None):
        """One commit, on the same conditions; the ledger keeps who approved it."""
        return cutover.switch_feed(params["feed"], params["hours"], approval)

    check() >> approve
    switch(approve.output)
