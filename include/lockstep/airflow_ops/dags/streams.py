"""One DAG for each stream; a run of it means "this stream shall run", as long as the run lasts.

Starting, watching and restarting is lockstep.airflow_ops.streams; the stream itself is a process of
its own, lockstep.streams.
"""

from datetime import timedelta

from airflow.sdk import DAG

from lockstep.airflow_ops.dags.of_pipeline import PipelineDags, default_args
from lockstep.airflow_ops.notify import FailureNotifier
from lockstep.airflow_ops.streams import SuperviseStreamOperator, restarts_param
from lockstep.model.modes import StreamMode

HOW = {
    StreamMode.LOOKUP: "changes of the fact, each looked up in the database's view",
    StreamMode.OUTBOX: "the outbox, written in the fact's own transaction",
    StreamMode.MESSAGE: "logical messages of the fact's own transaction",
    StreamMode.TEMPORAL: "changes of all tables, each fact joined as of its own commit",
    StreamMode.TRANSACTION: "whole transactions, put together in Spark's state store",
}


def stream_dag(of: PipelineDags, mode: StreamMode) -> DAG:
    """Run by hand. A schedule would start again at once what was given up or stopped on purpose."""
    with DAG(
        dag_id=of.names.stream_dag_id(mode),
        **of.looks(
            "stream",
            f"stream {mode}",
            f"Keeps the stream {mode} running: {HOW[mode]}",
            "stream.md",
            MODE=mode,
        ),
        schedule=None,
        catchup=False,
        max_active_runs=1,  # two would stop and start each other's stream
        is_paused_upon_creation=False,
        params={"restarts_max": restarts_param()},
        default_args=default_args(
            # For a worker that dies, or a home that cannot be read. A stream that is given up has
            # had its own restarts, and fails at once.
            retries=3,
            retry_delay=timedelta(seconds=10),
        ),
    ) as dag:
        SuperviseStreamOperator(
            task_id="supervise",
            pipeline=of.names.pipeline,
            mode=mode.value,
            restarts_max="{{ params.restarts_max }}",
            on_failure_callback=FailureNotifier(
                f"The stream {mode} of {of.names.pipeline} is given up"
            ),
            doc_md="Deferred while the stream runs. *Mark as failed* stops the stream gracefully.",
        )
    return dag
