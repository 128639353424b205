"""Keeps the published table up to date with its feed; a run of it means "this shall go on".

The publisher is a process of its own, lockstep.publish, supervised as a stream is by
lockstep.airflow_ops.streams.
"""

from datetime import timedelta

from airflow.sdk import DAG

from lockstep.airflow_ops.dags.of_pipeline import PipelineDags, default_args
from lockstep.airflow_ops.notify import FailureNotifier
from lockstep.airflow_ops.streams import SuperviseStreamOperator, restarts_param
from lockstep.model.modes import PUBLISHER


def publish_dag(of: PipelineDags) -> DAG:
    """Run by hand, as the streams. A schedule would start again at once what was given up."""
    with DAG(
        dag_id=of.names.publish_dag_id,
        **of.looks(
            "publish",
            "published",
            "Keeps the table that consumers read up to date with its feed, batch or stream",
            "publish.md",
        ),
        schedule=None,
        catchup=False,
        max_active_runs=1,
        is_paused_upon_creation=False,
        params={"restarts_max": restarts_param()},
        default_args=default_args(retries=3, retry_delay=timedelta(seconds=10)),
    ) as dag:
        SuperviseStreamOperator(
            task_id="supervise",
            pipeline=of.names.pipeline,
            mode=PUBLISHER,
            restarts_max="{{ params.restarts_max }}",
            on_failure_callback=FailureNotifier(
                f"The publisher of {of.names.pipeline} is given up"
            ),
            doc_md="Deferred while the publisher runs. *Mark as failed* stops it gracefully.",
        )
    return dag
