"""One DAG for each stream; a run of it means "this stream shall run", for as long as the run lasts.

Wiring only. Starting, watching and restarting is lockstep.airflow_ops.streams; the stream itself is
a process of its own, jobs/enrich_orders_stream.py.
"""

from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG
from lockstep.airflow_ops.notify import FailureNotifier
from lockstep.airflow_ops.streams import SuperviseStreamOperator, restarts_param
from lockstep.model.modes import StreamMode
from lockstep.settings import Settings

NAMES = Settings.load().names
DOC = Path(__file__).with_suffix(".md").read_text(encoding="utf-8")
HOW = {
    StreamMode.LOOKUP: "changes of orders, each looked up in the database's view",
    StreamMode.OUTBOX: "the outbox, written in the order's own transaction",
    StreamMode.MESSAGE: "logical messages of the order's own transaction",
    StreamMode.TEMPORAL: "changes of all tables, each order joined as of its own commit",
    StreamMode.TRANSACTION: "whole transactions, put together in Spark's state store",
}

for mode in StreamMode:
    with DAG(
        dag_id=NAMES.stream_dag_id(mode),
        dag_display_name=f"Stream: {mode}",
        description=f"Keeps the stream {mode} running: {HOW[mode]}",
        doc_md=DOC.replace("MODE", mode),
        # Run by hand. A schedule would start again at once what was given up or stopped on purpose.
        schedule=None,
        catchup=False,
        max_active_runs=1,  # two would stop and start each other's stream
        is_paused_upon_creation=False,
        params={"restarts_max": restarts_param()},
        tags=["lockstep", NAMES.pipeline, "stream"],
        default_args={
            "owner": "lockstep",
            # For a worker that dies, or a home that cannot be read. A stream that is given up has
            # had its own restarts, and fails at once.
            "retries": 3,
            "retry_delay": timedelta(seconds=10),
        },
    ):
        SuperviseStreamOperator(
            task_id="supervise",
            mode=mode.value,
            restarts_max="{{ params.restarts_max }}",
            on_failure_callback=FailureNotifier(f"The stream {mode} is given up"),
            doc_md="Deferred while the stream runs. *Mark as failed* stops the stream gracefully.",
        )
