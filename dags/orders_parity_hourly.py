"""Compares each hour that the hourly DAG has written with each stream that runs.

Wiring only. What is compared, waiting and verdicts are lockstep.airflow_ops.parity's; the work is
jobs/check_parity.py.
"""

from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG, Param, task
from lockstep.airflow_ops import parity
from lockstep.airflow_ops.assets import hourly_asset
from lockstep.airflow_ops.notify import FailureNotifier
from lockstep.airflow_ops.spark_jobs import spark_jars
from lockstep.settings import Settings

SETTINGS = Settings.load()
NAMES = SETTINGS.names
HOURLY_TABLE = hourly_asset(NAMES)

with DAG(
    dag_id=NAMES.parity_dag_id,
    dag_display_name="Orders parity, hourly",
    description="Each hour of the hourly table compared with each stream, at the run's own cut",
    doc_md=str(Path(__file__).with_suffix(".md")),
    schedule=[HOURLY_TABLE],
    catchup=False,
    is_paused_upon_creation=False,
    max_active_runs=2,
    params={
        name: Param("", type="string", title=title, description=description)
        for name, title, description in (
            ("window_start", "Window start", "For a run by hand, e.g. 2015-01-01T11:00Z."),
            ("window_end", "Window end", "Not part of the window, e.g. 2015-01-01T12:00Z."),
        )
    },
    user_defined_macros={"spark_jars": spark_jars},
    tags=["lockstep", NAMES.pipeline, "parity"],
    default_args={"owner": "lockstep"},
):

    @task
    def comparisons(triggering_asset_events=None, params=None):
        """The windows that were written, with each stream that is to run."""
        events = [event.extra for event in (triggering_asset_events or {}).get(HOURLY_TABLE, [])]
        return parity.comparisons(events, params["window_start"], params["window_end"])

    parity.CompareWindowOperator.partial(
        task_id="compare",
        doc_md="Compares a window with a stream as soon as that has passed the hourly run's cut.",
        map_index_template="{{ task.mode }}, {{ task.window_start }}",
        # A session takes a gigabyte, and the streams have the cores.
        max_active_tis_per_dag=1,
        retries=2,
        retry_delay=timedelta(minutes=1),
        execution_timeout=timedelta(minutes=20),
        on_failure_callback=FailureNotifier("Batch and stream differ, or could not be compared"),
        **parity.comparison_arguments(SETTINGS),
    ).expand_kwargs(comparisons())
