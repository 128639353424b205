"""Keeps the published table up to date with its feed; a run of it means "this shall go on".

Wiring only. The publisher is a process of its own, jobs/publish_orders.py, supervised as a stream
is by lockstep.airflow_ops.streams.
"""

from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG
from lockstep.airflow_ops.notify import FailureNotifier
from lockstep.airflow_ops.streams import SuperviseStreamOperator, restarts_param
from lockstep.model.modes import PUBLISHER
from lockstep.settings import Settings

NAMES = Settings.load().names

with DAG(
    dag_id=NAMES.publish_dag_id,
    dag_display_name="Orders, published",
    description="Keeps the table that consumers read up to date with its feed, batch or stream",
    doc_md=str(Path(__file__).with_suffix(".md")),
    # Run by hand, as the streams. A schedule would start again at once what was given up.
    schedule=None,
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=False,
    params={"restarts_max": restarts_param()},
    tags=["lockstep", NAMES.pipeline, "publish"],
    default_args={"owner": "lockstep", "retries": 3, "retry_delay": timedelta(seconds=10)},
):
    SuperviseStreamOperator(
        task_id="supervise",
        mode=PUBLISHER,
        restarts_max="{{ params.restarts_max }}",
        on_failure_callback=FailureNotifier("The publisher is given up"),
        doc_md="Deferred while the publisher runs. *Mark as failed* stops it gracefully.",
    )
